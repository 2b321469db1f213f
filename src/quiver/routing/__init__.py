"""The calls of the broker's facade where several workers own units: each goes to the owner of what it is about."""
