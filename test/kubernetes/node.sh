#!/usr/bin/env bash
# node.sh FOLDER N up|unplug|plug|crash|down : one node of a cluster of tests, by its own namespaces of network, mounts and names, its own containerd
# and kubelet. Nothing of it shows in the machine's own sysctls, /run or /var/lib/kubelet. Nodes hang on a bridge in a network namespace svck-sw
# (10.203.0.0/24; the machine is .1, node N is .1N, its Pods 10.204.N.0/24); no way leads further.
# Of the environment: KUBERNETES, the daemons' program; KUBECONFIG of the node; PROGRAMS, folders of containerd, runc; CNI; IMAGES, tar files;
# DNS, an address.
set -euo pipefail
F=$1 N=$2; n=n$N; ns=svck-$n; D=$F/$n; IP=10.203.0.1$N; SOCK=$D/containerd.sock
export PATH=$PROGRAMS:$PATH
SW() { nsenter --net=/run/netns/svck-sw "$@"; }
inside() { local h; h=$(cat "$D/holder.pid"); nsenter --net=/run/netns/$ns --mount="/proc/$h/ns/mnt" --uts="/proc/$h/ns/uts" "$@"; }
spawn() { local p=$1; shift; setsid "$@" >"$D/$p.log" 2>&1 </dev/null & echo $! >"$D/$p.pid"; }
end() { [ -f "$D/$1.pid" ] && kill -KILL "$(cat "$D/$1.pid")" 2>/dev/null || true; }
# waits DAEMON COMMAND…: until it succeeds, or the daemon has ended.
waits() {
  local p=$1; shift
  for _ in $(seq 600); do
    "$@" >/dev/null 2>&1 && return
    kill -0 "$(cat "$D/$p.pid")" 2>/dev/null || { echo "$p of $n has ended:" >&2; tail -20 "$D/$p.log" >&2; exit 1; }
    sleep 0.1
  done
  echo "in vain: $*" >&2; tail -5 "$D"/*.log >&2; exit 1
}
# Everything in the node's mount namespace, however it was started.
killall_inside() {
  local h me; h=$(cat "$D/holder.pid" 2>/dev/null || echo 0); me=$(readlink "/proc/$h/ns/mnt" 2>/dev/null || echo none)
  for g in /sys/fs/cgroup/*/$ns /sys/fs/cgroup/$ns; do
    [ -d "$g" ] && find "$g" -name cgroup.procs -exec cat {} + 2>/dev/null || true
  done | sort -u | while read -r p; do kill -KILL "$p" 2>/dev/null || true; done
  for p in /proc/[0-9]*; do
    if [ "$(readlink "$p/ns/mnt" 2>/dev/null)" = "$me" ] && [ "${p#/proc/}" != "$h" ]; then kill -KILL "${p#/proc/}" 2>/dev/null || true; fi
  done
}
case $3 in
up)
  mkdir -p "$D"/{cni,containerd,kubelet,logpods,logcontainers,fake} /var/lib/kubelet /var/log/pods /var/log/containers
  if [ ! -e /run/netns/svck-sw ]; then
    ip netns add svck-sw; SW ip link add br0 type bridge; SW ip link set br0 up; SW ip link set lo up
    ip link add svckhost type veth peer name host netns svck-sw; SW ip link set host master br0 up
    ip addr add 10.203.0.1/24 dev svckhost; ip link set svckhost up
  fi
  ip netns add $ns; ip link add hkv$N netns svck-sw type veth peer name eth0 netns $ns; SW ip link set hkv$N master br0 up
  nsenter --net=/run/netns/$ns sh -c "ip link set lo up; ip addr add $IP/24 dev eth0; ip link set eth0 up; echo 1 > /proc/sys/net/ipv4/ip_forward; ip route add 10.96.0.0/16 via 10.203.0.1"
  for m in 1 2 3; do [ $m = "$N" ] || nsenter --net=/run/netns/$ns ip route replace 10.204.$m.0/24 via 10.203.0.1$m; done
  ip route replace 10.204.$N.0/24 via $IP
  # The kubelet wants these: it finds them in files that are bound over them, so that the machine's stay as they are.
  printf 1 >"$D/fake/overcommit_memory"; printf 0 >"$D/fake/panic_on_oom"; printf 10 >"$D/fake/panic"; printf 1 >"$D/fake/panic_on_oops"
  printf 1000000 >"$D/fake/root_maxkeys"; printf 25000000 >"$D/fake/root_maxbytes"
  spawn holder nsenter --net=/run/netns/$ns unshare -m -u --propagation private sh -c "
    hostname $n; mount --make-rshared /; mount -t tmpfs tmpfs /run; mkdir -p /run/netns
    mount --bind $D/kubelet /var/lib/kubelet; mount --bind $D/logpods /var/log/pods; mount --bind $D/logcontainers /var/log/containers
    for f in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do mount --bind $D/fake/\$(basename \$f) /proc/sys/\$f; done
    touch $D/ready; exec sleep infinity"
  waits holder test -f "$D/ready"
  # In every hierarchy that is mounted (Docker's scripts mount more of them): a kubelet ends where one is missing.
  for g in /sys/fs/cgroup/*; do
    [ -d "$g" ] && [ "${g##*/}" != unified ] && ! [ -L "$g" ] || continue
    mkdir -p $g/$ns; [ "${g##*/}" != cpuset ] || { cat $g/cpuset.cpus >$g/$ns/cpuset.cpus; cat $g/cpuset.mems >$g/$ns/cpuset.mems; }
  done
  cat >"$D/cni/10-svck.conflist" <<J
{"cniVersion":"1.0.0","name":"svck","plugins":[{"type":"bridge","bridge":"cni0","isGateway":true,"ipMasq":false,"hairpinMode":true,
 "ipam":{"type":"host-local","dataDir":"$D/ipam","ranges":[[{"subnet":"10.204.$N.0/24"}]],"routes":[{"dst":"0.0.0.0/0"}]}}]}
J
  # A machine without CAP_SYS_RESOURCE takes no negative oom_score_adj.
  cat >"$D/containerd.toml" <<T
version = 2
root = "$D/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.aufs","io.containerd.snapshotter.v1.btrfs","io.containerd.snapshotter.v1.zfs","io.containerd.snapshotter.v1.devmapper"]
[grpc]
  address = "$SOCK"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "$CNI"
    conf_dir = "$D/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
T
  cat >"$D/kubelet.yaml" <<Y
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
address: $IP
containerRuntimeEndpoint: unix://$SOCK
cgroupDriver: cgroupfs
cgroupRoot: /$ns
failCgroupV1: false
failSwapOn: false
resolvConf: ""
clusterDNS: [$DNS]
clusterDomain: cluster.local
evictionHard: {memory.available: "100Mi", nodefs.available: "1%", imagefs.available: "1%", nodefs.inodesFree: "1%"}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
oomScoreAdj: 0
nodeStatusUpdateFrequency: 4s
nodeLeaseDurationSeconds: 20
healthzPort: 0
registerNode: true
Y
  spawn containerd nsenter --net=/run/netns/$ns --mount="/proc/$(cat "$D/holder.pid")/ns/mnt" --uts="/proc/$(cat "$D/holder.pid")/ns/uts" containerd -c "$D/containerd.toml"
  waits containerd ctr -a "$SOCK" version
  for i in $IMAGES; do inside ctr -a "$SOCK" -n k8s.io images import "$i" >/dev/null; done
  spawn kubelet nsenter --net=/run/netns/$ns --mount="/proc/$(cat "$D/holder.pid")/ns/mnt" --uts="/proc/$(cat "$D/holder.pid")/ns/uts" \
    "$KUBERNETES" kubelet --config="$D/kubelet.yaml" --kubeconfig="$KUBECONFIG" --hostname-override=$n --node-ip=$IP --v=2 ;;
unplug) SW ip link set hkv$N down ;;
plug) SW ip link set hkv$N up ;;
crash) # Its power is gone.
  SW ip link set hkv$N down; end kubelet; end containerd; killall_inside ;;
down)
  end kubelet; killall_inside; end containerd; killall_inside; end holder
  ip route del 10.204.$N.0/24 2>/dev/null || true; SW ip link del hkv$N 2>/dev/null || true; ip netns del $ns 2>/dev/null || true
  for g in /sys/fs/cgroup/*/$ns; do [ -d "$g" ] && find "$g" -depth -type d -exec rmdir {} + 2>/dev/null || true; done
  if ! ls /run/netns 2>/dev/null | grep -q '^svck-n'; then ip link del svckhost 2>/dev/null || true; ip netns del svck-sw 2>/dev/null || true; fi
  rmdir /var/lib/kubelet /var/log/pods /var/log/containers 2>/dev/null || true ;;
esac
