// What may stand for H's activation function; the numbers are those that Python hands over.
#pragma once

namespace highwaynet {

enum Activation : int { relu = 0, tanh = 1, sigmoid = 2, identity = 3, activations = 4 };

}  // namespace highwaynet
