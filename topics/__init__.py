"""Topic names, record types and codecs: the record library only, nothing that knows Kafka clients or learners."""
