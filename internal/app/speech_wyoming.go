package app

import (
	"context"

	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/problem"
	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/engines"
	"patchbay/internal/voice/engines/wyoming"
)

// wyomingHere are the customary addresses of Wyoming servers on this machine: of recognisers and of
// voices (rhasspy/wyoming-faster-whisper and rhasspy/wyoming-piper, README.md).
var wyomingHere = []string{"127.0.0.1:10300", "127.0.0.1:10200"}

// maxWyoming limits the addresses of one set-up: each may take six seconds.
const maxWyoming = 8

const (
	msgWyomingMost   = i18n.Message("Give %d Wyoming servers at most.")
	msgNoWyoming     = i18n.Message("No Wyoming server answers on this machine, neither at 127.0.0.1:10300 nor at 127.0.0.1:10200. Give its address, or a service and its key.")
	msgWyomingFailed = i18n.Message("%[1]s: %[2]s (%[3]v)")
	msgWyomingIdle   = i18n.Message("The Wyoming server at %s neither listens nor speaks.")
)

// wyoming asks Wyoming servers what they can do.
func (s *speech) wyoming(ctx context.Context, addresses []string) (found []control.WyomingServer, err error) {
	look := len(addresses) == 0
	switch {
	case look:
		addresses = wyomingHere
	case len(addresses) > maxWyoming:
		return nil, problem.New(problem.Invalid, msgWyomingMost, maxWyoming)
	}
	for _, a := range addresses {
		w := control.WyomingServer{}
		w.Address, w.Listens, w.Speaks, err = wyoming.Describe(ctx, wyoming.Settings{Address: a}, s.options())
		switch {
		case err == nil && (w.Listens || w.Speaks):
			found = append(found, w)
		case look:
		case err == nil:
			return nil, problem.New(problem.Invalid, msgWyomingIdle, w.Address)
		case w.Address == "":
			return nil, control.InputProblem(problem.Invalid, err)
		default:
			return nil, problem.New(problem.Unavailable, msgWyomingFailed, w.Address, engines.Explain(err),
				causeOf(err)).Because(err)
		}
	}
	if len(found) == 0 && ctx.Err() == nil {
		return nil, problem.New(problem.NotFound, msgNoWyoming)
	}
	return found, ctx.Err()
}

// causeOf returns the details of an error of an engine.
func causeOf(err error) string {
	if e := engine.AsError(err); e != nil {
		return e.Err.Error()
	}
	return err.Error()
}
