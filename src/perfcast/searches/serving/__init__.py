"""The best plan of inference.

``batches`` (asked by ``batches_request``): of batches that arrive at once, prefill or decode. The others: of
requests that come as they do. ``request`` is what is asked, ``targets`` the clusters with names resolved,
``replicas`` what one replica can be and how long its steps take, ``space`` deployments of them in columns,
``sampled`` their steps looked up together, ``weigh`` what all of them do by formula, ``rank`` which keep
limits and are best, ``play`` the best by events, ``explain`` why, ``search`` the whole.
"""
