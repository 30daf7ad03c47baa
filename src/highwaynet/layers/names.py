"""The names of activations, initialisations, carry gates, shortcuts and families of layers; free of torch, so that specs load at once."""

from typing import Literal

Activation = Literal["tanh", "relu", "sigmoid", "identity"]
Init = Literal["glorot-uniform", "glorot-normal", "he", "orthogonal", "normal"]
Carry = Literal["coupled", "independent"]
Shortcut = Literal["pad", "project"]
FamilyName = Literal["dense", "convolutional"]
