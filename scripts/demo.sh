# Sourced by `run`: six real agents on simulated GPUs, as nodes of three providers. They belong to
# the tenant `demo`, and everything they send is marked as simulated.

# node | provider; the scenario is nvml-sim/scenarios/demo-NODE.toml
demo_nodes='
a-train-1 provider-a
a-train-2 provider-a
b-infer-1 provider-b
b-infer-2 provider-b
c-mixed-1 provider-c
c-mixed-2 provider-c
'

start_demo() {
  local name provider directory
  while read -r name provider; do
    [ -n "$name" ] || continue
    directory=$data_dir/demo/$name
    mkdir -p "$directory"
    rotate "$directory/agent.log"
    set -m
    LEASEWATCH_SIM_SCENARIO=$root/nvml-sim/scenarios/demo-$name.toml \
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
  "$bin/leasewatch-server" demo remove --server "http://$listen" ||
    die "the server did not remove the demo." "Start it with ./run --empty, then try again."
  rm -rf "$data_dir/demo"
  : >"$data_dir/demo.removed"
  say "the demo is gone; ./run leaves it out from here on, ./run --demo brings it back"
}
