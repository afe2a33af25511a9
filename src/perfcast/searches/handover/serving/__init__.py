"""A deployment as what the user starts next: commands and files of the serving framework, and of Dynamo.

``write_serving`` gives them by name; a deployment that a framework cannot run is refused, with what is in the
way.
"""

from perfcast.searches.handover.serving.job import ServingJob, find_hub_name
from perfcast.searches.handover.serving.resolved import job_of
from perfcast.searches.handover.serving.write import SERVING_TARGETS, find_serving_obstacles, write_serving

__all__ = [
    "SERVING_TARGETS",
    "ServingJob",
    "find_hub_name",
    "find_serving_obstacles",
    "job_of",
    "write_serving",
]
