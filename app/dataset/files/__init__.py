"""Sources of rows: begin with `data`, whose `DataFile` is what all others give.

`arrow`, `packed`: Parquet, Arrow and compressed files; `shuffled`: in another order; `synthetic`: generated.
`table`: a file as a whole, in memory.
"""
