// The activation functions of H; Python passes these numbers (ACTIVATIONS in operators.py).
#pragma once

namespace highwaynet {

enum Activation : int { relu = 0, tanh = 1, sigmoid = 2, identity = 3, activations = 4 };

}  // namespace highwaynet
