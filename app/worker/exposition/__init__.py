"""What a worker shows of itself over HTTP: begin with `metric_names`, every Prometheus metric with its meaning.

`metrics`, `histogram`: their values; `scrape`, `web`: the pages; `connection_limits`: what strangers are granted.
"""
