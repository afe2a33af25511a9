#!/bin/sh
# ASTRA_SIM is the path of AstraSim_Analytical_Congestion_Unaware or _Aware, built from
# github.com/astra-sim/astra-sim (build/astra_analytical/build.sh).
here=$(cd "$(dirname "$0")" && pwd)
exec "${ASTRA_SIM:?}" \
  --workload-configuration="$here/workload" \
  --comm-group-configuration="$here/comm_groups.json" \
  --system-configuration="$here/system.json" \
  --network-configuration="$here/network.yml" \
  --remote-memory-configuration="$here/remote_memory.json"
