"""Highway networks as scikit-learn estimators: `HighwayClassifier` and `HighwayRegressor`."""

from highwaynet.estimator.classifier import HighwayClassifier as HighwayClassifier
from highwaynet.estimator.regressor import HighwayRegressor as HighwayRegressor
