"""Files and generated streams as rows, instances and records."""
