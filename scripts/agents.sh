# Sourced by `run` and `scripts/agent-dir`: the folder of agents that a server hands out to nodes.

# put_agent FOLDER PROGRAM: the program is the only agent for this kind of machine, afterwards.
put_agent() {
  local version architecture name
  architecture=$(uname -m)
  version=$("$2" --version) && version=${version##* } || return
  name=leasewatch-agent-$version-$architecture
  mkdir -p "$1" || return
  # A server compares each file with its sum, so it never hands out one that is being written.
  if ! cmp -s "$2" "$1/$name"; then
    rm -f "$1"/leasewatch-agent-*-"$architecture" "$1"/*.new
    cp "$2" "$1/$name.new" && chmod 755 "$1/$name.new" && mv -f "$1/$name.new" "$1/$name" || return
  fi
  (cd "$1" && sha256sum leasewatch-agent-* >SHA256SUMS.new && mv -f SHA256SUMS.new SHA256SUMS)
}
