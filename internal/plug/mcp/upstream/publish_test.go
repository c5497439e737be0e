package upstream

import (
	"testing"
	"time"

	"patchbay/internal/tool"
)

// onOffer is a Registration that calls do when tools have just become visible.
type onOffer struct {
	Registration
	do func()
}

func (o onOffer) SetTools(tools []tool.Tool) {
	o.Registration.SetTools(tools)
	if len(tools) > 0 {
		o.do()
	}
}

// When the tools of a server are visible, its status is connected.
func TestToolsAndStateTogether(t *testing.T) {
	for _, dialsIn := range []bool{false, true} {
		r := newRig(t, newScriptedServer(t, nil).settings(), fastTimings())
		seen := make(chan Status, 1)
		r.m.opt.Register = func(spec Spec, p tool.Provider) Registration {
			return onOffer{r.hub.register(spec, p), func() {
				read := make(chan struct{})
				go func() {
					defer close(read)
					st, _ := r.m.Status(spec.ID)
					seen <- st
				}()
				select {
				case <-read: // the status is from before
				case <-time.After(50 * time.Millisecond): // the reader waits for SetTools to return
				}
			}}
		}
		if r.spec.Inbound = dialsIn; dialsIn {
			r.spec.Settings = Settings{}
		}
		r.start()
		if dialsIn {
			dialInbound(t, r.inboundURL(), nil)
		}
		if st := <-seen; st.State != Ready || st.Tools != 1 || st.Err != nil || st.Protocol == "" {
			t.Errorf("dials in %v: with its tools the status is %+v", dialsIn, st)
		}
	}
}
