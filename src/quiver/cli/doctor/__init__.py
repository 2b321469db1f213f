"""`quiver doctor`: what is wrong with a broker or its machine, and what to do about it."""
