package service

import (
	"context"

	syswindows "golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc"
)

// Run runs the program of a service: until ctx ends, and on Windows until the service control
// manager stops it. It returns the program's exit code.
func Run(ctx context.Context, program func(context.Context) int) (int, error) {
	managed, err := svc.IsWindowsService()
	if err != nil || !managed {
		return program(ctx), err
	}
	h := &handler{ctx: ctx, program: program}
	err = svc.Run(Name, h)
	return h.code, err
}

// handler answers the service control manager while the program runs.
type handler struct {
	ctx     context.Context
	program func(context.Context) int
	code    int
}

// Execute implements [svc.Handler].
func (h *handler) Execute(_ []string, requests <-chan svc.ChangeRequest, status chan<- svc.Status) (bool, uint32) {
	const accepts = svc.AcceptStop | svc.AcceptShutdown
	ctx, stop := context.WithCancel(h.ctx)
	defer stop()
	ended := make(chan int, 1)
	go func() { ended <- h.program(ctx) }()
	status <- svc.Status{State: svc.Running, Accepts: accepts}
	for {
		select {
		case h.code = <-ended:
			status <- svc.Status{State: svc.StopPending}
			return h.code != 0, uint32(h.code) //nolint:gosec // an exit code
		case r := <-requests:
			switch r.Cmd {
			case svc.Interrogate:
				status <- r.CurrentStatus
			case svc.Stop, svc.Shutdown:
				status <- svc.Status{State: svc.StopPending, WaitHint: uint32(StopTimeout.Milliseconds())}
				stop()
			}
		}
	}
}

func isPrivileged() bool { return syswindows.GetCurrentProcessToken().IsElevated() }
