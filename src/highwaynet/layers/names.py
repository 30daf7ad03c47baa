"""The names of activations, initialisations, carry gates, shortcuts and families. Does not import torch, so that specs load fast."""

from typing import Literal

Activation = Literal["tanh", "relu", "sigmoid", "identity"]
Init = Literal["glorot-uniform", "glorot-normal", "he", "orthogonal", "normal", "uniform"]
Carry = Literal["coupled", "independent"]
Shortcut = Literal["pad", "project"]
FamilyName = Literal["dense", "convolutional"]
