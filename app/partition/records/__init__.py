"""Records of a partition's topics in one order: begin with `merge`, which releases what nothing earlier can precede.

`clock`: stream time; `inputs`: whether the topics still hold what comes next.
"""
