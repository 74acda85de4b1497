# Sourced by `run`: six real agents on simulated GPUs, as nodes of three providers. They belong to
# the tenant `demo`, and everything they send is marked as simulated.

# node, provider, scenario of nvml-sim/scenarios
demo_nodes='
a1-h100 provider-a demo-h100
a2-a100 provider-a demo-a100
b1-rtx4090 provider-b demo-rtx4090
b2-l40s provider-b demo-l40s
c1-h20 provider-c demo-h20
c2-v100-t4 provider-c demo-v100-t4
'

start_demo() {
  local name provider scenario directory
  while read -r name provider scenario; do
    [ -n "$name" ] || continue
    directory=$data_dir/demo/$name
    mkdir -p "$directory"
    rotate "$directory/agent.log"
    set -m
    LEASEWATCH_SIM_SCENARIO=$root/nvml-sim/scenarios/$scenario.toml \
      "$bin/leasewatch-agent" run --server "http://$listen" --state-dir "$directory/state" \
      --tenant demo --provider "$provider" --name "$name" \
      --nvml-library "$bin/libnvidia_ml_sim.so" \
      >"$directory/agent.log" 2>&1 </dev/null &
    set +m
    echo $! >"$directory/agent.pid"
  done <<<"$demo_nodes"
}

stop_demo() { stop_all leasewatch-agent "$data_dir"/demo/*/agent.pid; }

# Takes the fleet, its state and everything that the server holds of it away.
remove_demo() {
  [ -x "$bin/leasewatch-server" ] || die "nothing is built here yet, so there is no demo to remove."
  stop_demo
  "$bin/leasewatch-server" demo remove --data-dir "$data_dir" || die "the demo was not removed."
  rm -rf "$data_dir/demo"
  : >"$data_dir/demo.removed"
  say "the demo is gone; ./run leaves it out from here on, ./run --demo brings it back"
}
