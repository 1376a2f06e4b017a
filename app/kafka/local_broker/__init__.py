"""Apache Kafka on 127.0.0.1 for the demo, the tests and a first try: begin with `broker`.

`java` finds a runtime and the jars, `ports` free ports, and `supervisor` ends the broker with whoever asked for it.
"""
