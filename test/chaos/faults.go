package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"syscall"
	"time"

	"patchbay/internal/netx"
)

// faultKind is a kind of fault.
type faultKind struct {
	name, about string
	do          func(ctx context.Context, t *cluster, f fault) error // returns when the fault is over
}

// fault is one occurrence of a faultKind.
type fault struct {
	kind  *faultKind
	which int // index of the instance or NATS server
}

func (f fault) String() string { return fmt.Sprintf("%s (%c)", f.kind.name, 'a'+rune(f.which)) }

// kinds are all kinds of faults.
var kinds = []faultKind{
	{"kill", "an instance is killed, and started 5 s later", func(ctx context.Context, t *cluster, f fault) error {
		return restart(ctx, t.inst[f.which], syscall.SIGKILL, 5*time.Second)
	}},
	{"kill all", "all instances are killed at once, and started 3 s later",
		func(ctx context.Context, t *cluster, f fault) error {
			for _, n := range t.inst {
				if err := n.Signal(syscall.SIGKILL); err != nil {
					return err
				}
			}
			for _, n := range t.inst {
				n.Await(time.Minute)
			}
			_ = netx.Wait(ctx, 3*time.Second)
			for _, n := range t.inst {
				if err := n.Start(); err != nil {
					return err
				}
			}
			return t.balancer.await(ctx)
		}},
	{"restart", "an instance is stopped in an orderly way, and started again",
		func(ctx context.Context, t *cluster, f fault) error {
			return restart(ctx, t.inst[f.which], syscall.SIGTERM, 0)
		}},
	{"freeze", "an instance stands still for 12 s", func(ctx context.Context, t *cluster, f fault) error {
		n := t.inst[f.which]
		if err := n.Signal(syscall.SIGSTOP); err != nil {
			return err
		}
		_ = netx.Wait(ctx, 12*time.Second)
		return n.Signal(syscall.SIGCONT)
	}},
	{"database crash", "PostgreSQL crashes, and starts 8 s later",
		func(ctx context.Context, t *cluster, f fault) error {
			t.postgres.Stop()
			_ = netx.Wait(ctx, 8*time.Second)
			return t.postgres.Start()
		}},
	{"database restart", "PostgreSQL crashes, and starts at once",
		func(ctx context.Context, t *cluster, f fault) error {
			t.postgres.Stop()
			return t.postgres.Start()
		}},
	{"database disk full", "PostgreSQL's disk is full for 8 s, and it is started again (only as root)",
		func(ctx context.Context, t *cluster, f fault) error {
			if t.disk == "" {
				return nil
			}
			if err := t.fillDisk(); err != nil {
				return err
			}
			_ = netx.Wait(ctx, 8*time.Second)
			if err := os.Remove(t.filler()); err != nil {
				return err
			}
			t.postgres.Stop() // it may have stopped by itself
			return t.postgres.Start()
		}},
	{"database mute", "nobody hears anything of the database for 10 s",
		func(ctx context.Context, t *cluster, f fault) error {
			for _, n := range t.inst {
				n.database.Mute()
			}
			_ = netx.Wait(ctx, 10*time.Second)
			for _, n := range t.inst {
				n.database.Pass()
			}
			return nil
		}},
	{"database mute for one", "an instance hears nothing of the database for 15 s",
		func(ctx context.Context, t *cluster, f fault) error {
			t.inst[f.which].database.Mute()
			_ = netx.Wait(ctx, 15*time.Second)
			t.inst[f.which].database.Pass()
			return nil
		}},
	{"database failover", "all connections to the database are mute for ever, new ones work",
		func(ctx context.Context, t *cluster, f fault) error {
			for _, n := range t.inst {
				n.database.MuteExisting()
			}
			return nil
		}},
	{"database cut for one", "an instance is refused by the database for 10 s",
		func(ctx context.Context, t *cluster, f fault) error {
			t.inst[f.which].database.Cut()
			_ = netx.Wait(ctx, 10*time.Second)
			t.inst[f.which].database.Pass()
			return nil
		}},
	{"database slow", "everything that the database is told, and says, takes 50 ms more, for 15 s",
		func(ctx context.Context, t *cluster, f fault) error {
			for _, n := range t.inst {
				n.database.Slow(50 * time.Millisecond)
			}
			_ = netx.Wait(ctx, 15*time.Second)
			for _, n := range t.inst {
				n.database.Pass()
			}
			return nil
		}},
	{"bus cut", "an instance is cut off from the bus for 8 s", func(ctx context.Context, t *cluster, f fault) error {
		return onBus(ctx, t.inst[f.which], 8*time.Second, func(n *instance, i int) { n.bus[i].Cut() })
	}},
	{"bus cut for long", "an instance is cut off from the bus for 25 s",
		func(ctx context.Context, t *cluster, f fault) error {
			return onBus(ctx, t.inst[f.which], 25*time.Second, func(n *instance, i int) { n.bus[i].Cut() })
		}},
	{"bus mute", "an instance hears nothing on the bus for 20 s", func(ctx context.Context, t *cluster, f fault) error {
		return onBus(ctx, t.inst[f.which], 20*time.Second, func(n *instance, i int) { n.bus[i].Mute() })
	}},
	{"bus slow", "everything on the bus takes an instance 100 ms more, for 15 s",
		func(ctx context.Context, t *cluster, f fault) error {
			return onBus(ctx, t.inst[f.which], 15*time.Second, func(n *instance,
				i int) {
				n.bus[i].Slow(100 * time.Millisecond)
			})
		}},
	{"bus server down", "one of the NATS servers is down for 10 s",
		func(ctx context.Context, t *cluster, f fault) error {
			t.bus[f.which].stop()
			_ = netx.Wait(ctx, 10*time.Second)
			return t.bus[f.which].start()
		}},
	{"bus down", "all NATS servers are down for 10 s", func(ctx context.Context, t *cluster, f fault) error {
		for _, b := range t.bus {
			b.stop()
		}
		_ = netx.Wait(ctx, 10*time.Second)
		for _, b := range t.bus {
			if err := b.start(); err != nil {
				return err
			}
		}
		return nil
	}},
	{"roam in a partition",
		"an instance is cut off from the bus for 8 s, and everybody who is connected connects anew meanwhile",
		func(ctx context.Context, t *cluster, f fault) error {
			return onBus(ctx, t.inst[f.which], 8*time.Second, func(n *instance, i int) {
				n.bus[i].Cut()
				t.balancer.drop()
			})
		}},
	{"connections drop", "all connections through the front break",
		func(ctx context.Context, t *cluster, f fault) error {
			t.balancer.drop()
			return nil
		}},
}

// restart stops an instance and starts it again after a while.
func restart(ctx context.Context, n *instance, how syscall.Signal, after time.Duration) error {
	if err := n.Signal(how); err != nil {
		return err
	}
	n.Await(2 * time.Minute)
	_ = netx.Wait(ctx, after)
	if err := n.Start(); err != nil {
		return err
	}
	return n.Ready(ctx)
}

// onBus affects all connections of an instance to the bus for a while.
func onBus(ctx context.Context, n *instance, span time.Duration, do func(n *instance, i int)) error {
	for i := range n.bus {
		do(n, i)
	}
	_ = netx.Wait(ctx, span)
	for i := range n.bus {
		n.bus[i].Pass()
	}
	return nil
}

// planFaults chooses the faults: each selected kind once before any is repeated, in an order given
// by the seed.
func planFaults(o options) (plan []fault) {
	random := rand.New(rand.NewPCG(o.seed, 0))
	var wanted []*faultKind
	for i := range kinds {
		if ok, _ := path.Match(o.only, kinds[i].name); ok {
			wanted = append(wanted, &kinds[i])
		}
	}
	for len(plan) < o.faults && len(wanted) > 0 {
		for _, i := range random.Perm(len(wanted)) {
			plan = append(plan, fault{kind: wanted[i], which: random.IntN(instances)})
		}
	}
	return plan[:min(o.faults, len(plan))]
}
