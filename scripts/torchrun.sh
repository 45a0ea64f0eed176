#!/usr/bin/env bash
# One node of a run over many: start this with the same options on every node.
#
#   NNODES=2 NODE_RANK=0 MASTER_ADDR=10.0.0.1 scripts/torchrun.sh --config configs/quickstart.yaml ...
#   NNODES=2 NODE_RANK=1 MASTER_ADDR=10.0.0.1 scripts/torchrun.sh --config configs/quickstart.yaml ...
#
# All arguments go to `gtpo-lit fit`. From the environment:
#   NNODES          nodes (1)
#   NODE_RANK       this one's number, from 0 (0); rank 0 of the run lives on node 0
#   NPROC_PER_NODE  processes on each node (its GPUs, or 1)
#   MASTER_ADDR     node 0 as the others see it (127.0.0.1)
#   MASTER_PORT     a free port there (29500)
#   GRACE_SECONDS   after a SIGTERM, until workers that are still there are killed (600)
#   PYTHON          the interpreter (python)
set -euo pipefail

: "${NNODES:=1}" "${NODE_RANK:=0}" "${MASTER_ADDR:=127.0.0.1}" "${MASTER_PORT:=29500}"
: "${GRACE_SECONDS:=600}" "${PYTHON:=python}"
if [[ -z ${NPROC_PER_NODE:-} ]]; then
  NPROC_PER_NODE=$("$PYTHON" -c 'import torch; print(max(1, torch.cuda.device_count()))')
fi

die() {
  echo "torchrun.sh: $1" >&2
  exit 2
}
for name in NNODES NODE_RANK NPROC_PER_NODE MASTER_PORT GRACE_SECONDS; do
  [[ ${!name} =~ ^[0-9]+$ ]] || die "$name=${!name} is not a number"
done
((NODE_RANK < NNODES)) || die "NODE_RANK=$NODE_RANK must be below NNODES=$NNODES; it counts from 0"
(($# > 0)) || die "no options for gtpo-lit fit, such as --config configs/quickstart.yaml"

# Whoever reaches the collectives' ports can disturb a run, so without another address than this
# machine's the backends stay on it. torch's rendezvous store listens on all interfaces whatever
# its address is: a firewall must keep strangers from MASTER_PORT.
if [[ $MASTER_ADDR == 127.* || $MASTER_ADDR == localhost ]]; then
  export GLOO_SOCKET_IFNAME=${GLOO_SOCKET_IFNAME:-lo} NCCL_SOCKET_IFNAME=${NCCL_SOCKET_IFNAME:-lo}
fi

# torchrun kills its workers 30 s after a SIGTERM by itself, in the middle of a checkpoint maybe.
export TORCH_ELASTIC_SHUTDOWN_TIMEOUT=$GRACE_SECONDS
# A thread pool on each rank would only fight the others'.
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}

# The static rendezvous puts ranks where NODE_RANK says, so that rank 0, which writes the run's
# folder and pushes weights, is on node 0. It knows no restarts: whoever starts this script starts
# it again, with --ckpt_path last, as workers that died within a step have nothing to go on from.
# The sizes stand last, where neither a config nor another option can contradict torchrun.
# exec, so that a signal for this process reaches torchrun, which hands it to its workers.
exec "$PYTHON" -m torch.distributed.run \
  --nnodes "$NNODES" --node-rank "$NODE_RANK" --nproc-per-node "$NPROC_PER_NODE" \
  --master-addr "$MASTER_ADDR" --master-port "$MASTER_PORT" --max-restarts 0 \
  -m gtpo_lit fit "$@" \
  --trainer.num_nodes "$NNODES" --trainer.devices "$NPROC_PER_NODE"
