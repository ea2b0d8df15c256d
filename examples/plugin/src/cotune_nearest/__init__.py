"""A predictor and a policy for cotune, from outside its tree."""
