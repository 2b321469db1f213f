"""Where the numbers come from: a module per area, which knows the parts that own them."""
