package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"patchbay/internal/netx"
	"patchbay/test/built"
)

const (
	// spareFiles is the number of open files of a process besides its devices.
	spareFiles = 500
	// perProcess is the maximum number of devices of a process.
	perProcess = 10_000
)

// fleet holds all devices, in processes of their own.
type fleet struct {
	processes []*exec.Cmd
	ins       []io.WriteCloser
	readers   sync.WaitGroup

	mu   sync.Mutex
	last []report // the last report of each process
	gone bool     // a process has ended
}

// startFleet starts the processes, whose devices connect at once.
func startFleet(ctx context.Context, t *cluster) (f *fleet, err error) {
	f = &fleet{}
	n := max(2, (t.boards+t.nodes+perProcess-1)/perProcess)
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return nil, err
	}
	// Go has raised the soft limit to the hard limit. While one instance is away, the others have
	// its devices.
	if need := uint64(max((t.boards+t.nodes)/n, (t.boards+t.nodes)/(instances-1)) + spareFiles); l.Cur < need {
		return nil, fmt.Errorf("%d devices need %d open files in one process, and %d are allowed; try: ulimit -n %d",
			t.boards+t.nodes, need, l.Cur, need)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	f.last = make([]report, n)
	for i := range n {
		o := clientConfig{
			Backends: t.backends, NodesFile: t.nodesFile(),
			Boards: [2]int{t.boards * i / n, t.boards * (i + 1) / n},
			Nodes:  [2]int{t.nodes * i / n, t.nodes * (i + 1) / n},
		}
		if i == 0 {
			o.Echo = t.bus.ClientURL()
		}
		if err := f.add(ctx, self, i, o); err != nil {
			f.stop()
			return nil, err
		}
	}
	return f, nil
}

func (f *fleet) add(ctx context.Context, program string, i int, o clientConfig) error {
	cmd := exec.CommandContext(ctx, program, clientsFlag)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	f.processes, f.ins = append(f.processes, cmd), append(f.ins, in)
	f.readers.Go(func() {
		lines := json.NewDecoder(out)
		for {
			var r report
			err := lines.Decode(&r)
			f.mu.Lock()
			if err != nil {
				f.gone = true
				f.mu.Unlock()
				return
			}
			f.last[i] = r
			f.mu.Unlock()
		}
	})
	return json.NewEncoder(in).Encode(o)
}

// stop kills the processes.
func (f *fleet) stop() {
	for i, p := range f.processes {
		f.ins[i].Close()
		p.Process.Kill() //nolint:errcheck // it has ended
	}
	f.readers.Wait()
	for _, p := range f.processes {
		p.Wait() //nolint:errcheck // it was killed
	}
}

// report returns the sum of all reports.
func (f *fleet) report() (sum report, gone bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.last {
		sum.add(r)
	}
	return sum, f.gone
}

func (f *fleet) cpu() (sum time.Duration) {
	for _, p := range f.processes {
		sum += built.CPU(p.Process.Pid)
	}
	return sum
}

// backLimit is the maximum time for all devices to connect.
const backLimit = 10 * time.Minute

// awaitAll waits until all devices are connected.
func (t *cluster) awaitAll(ctx context.Context) error {
	for began := time.Now(); ; _ = netx.Wait(ctx, reportInterval/2) {
		r, gone := t.fleet.report()
		switch {
		case r.Boards == t.boards && r.Nodes == t.nodes:
			return nil
		case gone || ctx.Err() != nil || time.Since(began) > backLimit:
			return fmt.Errorf("%d boards of %d and %d nodes of %d are connected; the last that went wrong: %s",
				r.Boards, t.boards, r.Nodes, t.nodes, r.Why)
		}
	}
}
