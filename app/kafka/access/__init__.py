"""What a client may do in a cluster: begin with `acls`, the rights that each command needs.

`rights` asks a broker which of them are missing, `refusal` says in a sentence why a broker lets nobody in, and
`strimzi` writes the same rights as resources of Kubernetes.
"""
