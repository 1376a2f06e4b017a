"""Commands that run until they are stopped, and the data for them: begin with `worker`.

`worker`, `broker`, `ui`, `demo`: processes; `replay`, `generate`: records for a stream.
`starting`, `kernels`, `environment`, `signals`: how a process begins, and how it ends.
"""
