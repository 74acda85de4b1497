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

# Gives nodes that have never run a past of some days, once. A past that broke off goes on: the
# same story up to the same end is the same log, and the server keeps what it has.
make_demo_history() {
  local name provider scenario directory began=$SECONDS made=0 days=${LEASEWATCH_DEMO_DAYS:-7}
  [ "$days" != 0 ] || return 0
  while read -r name provider scenario; do
    [ -n "$name" ] || continue
    directory=$data_dir/demo/$name
    if [ ! -e "$directory/history.until" ]; then
      [ ! -e "$directory/state" ] || continue
      mkdir -p "$directory"
      date +%s000 >"$directory/history.until"
    fi
    [ ! -e "$directory/history.made" ] || continue
    made=$((made + 1))
    say "demo: making the last $days days of $name"
    if ! write_demo_history "$directory" "$name" "$provider" "$scenario" "$days"; then
      say "demo: $name starts without a past; why is in $directory/history.log"
    fi
    touch "$directory/history.made"
  done <<<"$demo_nodes"
  [ "$made" -eq 0 ] ||
    say "demo: the past of $made nodes took $((SECONDS - began)) s; the server closes their hours now"
}

write_demo_history() {
  "$bin/leasewatch-sim-history" "$root/nvml-sim/scenarios/history/$4.toml" \
    --days "$5" --until "$(cat "$1/history.until")" 2>"$1/history.log" </dev/null |
    "$bin/leasewatch-server" import history - --server "http://$listen" --state "$1/state" \
      --tenant demo --provider "$3" --node "$2" >>"$1/history.log" 2>&1
}

# Writes down what the demo rents, once its nodes are there; later starts add the nights since.
lease_demo() {
  local said='' tries=0
  until [[ $said == "demo: 5 rentals"* ]] || [ "$tries" -ge 20 ]; do
    [ "$tries" -eq 0 ] || sleep 1
    tries=$((tries + 1))
    said=$("$bin/leasewatch-server" demo leases --data-dir "$data_dir" 2>"$data_dir/demo/leases.log") ||
      said="demo: no rentals; why is in $data_dir/demo/leases.log"
  done
  say "$said"
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
