"""`model: auto`: an opinion pool that fits a budget of bytes and of processor time, from the stream file alone.

Read auto.py first: which members it chooses. costs.py has what a member takes, values.py the numbers of nominal values.
"""
