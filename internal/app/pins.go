package app

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"

	"patchbay/internal/control"
	"patchbay/internal/pin"
	"patchbay/internal/store"
)

// pins stores what the owners of tool servers have approved. It implements upstream.Pins.
type pins struct {
	b   *Base
	log *slog.Logger
}

// maxResourcePins limits the resources of one upstream that are compared with what they were.
const maxResourcePins = 1000

// pinKinds are the kinds that are not pinned as tools are.
var pinKinds = map[string]store.PinKind{
	pin.Template: {First: store.PinKey{Kind: pin.Content}},
	pin.Resource: {Open: true, Most: maxResourcePins},
	pin.Content:  {Open: true, Most: 1},
}

// Record implements upstream.Pins. It writes an admin event for changes.
func (p pins) Record(ctx context.Context, provider string,
	list pin.List) (map[pin.Key]pin.Mark, bool, error) {
	number, person, err := parseProviderID(provider)
	if err != nil {
		return nil, false, err
	}
	in := store.PinRecord{Upstream: number, By: person, Partial: list.Partial, Removed: pin.Removed, Risk: pin.RiskOf,
		Kinds: pinKinds, At: time.Now()}
	for _, f := range list.Forms {
		in.Forms = append(in.Forms, store.PinForm{PinKey: store.PinKey(f.Key), Fingerprint: f.Fingerprint,
			Content: f.Content})
	}
	marks, news, err := p.b.Store.Pins.Record(ctx, in)
	if err != nil {
		return nil, false, err
	}
	p.tell(ctx, number, news)
	out, untold := pinMarks(marks)
	return out, untold, nil
}

// Marks implements upstream.Pins.
func (p pins) Marks(ctx context.Context, provider string) (map[pin.Key]pin.Mark, error) {
	number, err := upstreamNumber(provider)
	if err != nil {
		return nil, err
	}
	marks, err := p.b.Store.Pins.Marks(ctx, number)
	out, _ := pinMarks(marks)
	return out, err
}

// pinMarks converts marks, and reports whether nobody has been told about some yet.
func pinMarks(marks []store.PinMark) (out map[pin.Key]pin.Mark, untold bool) {
	out = make(map[pin.Key]pin.Mark, len(marks))
	for _, m := range marks {
		out[pin.Key(m.PinKey)] = pin.Mark{Fingerprint: m.Fingerprint, Pending: m.Pending, Risk: m.Risk}
		untold = untold || !m.IsTold()
	}
	return out, untold
}

// tell writes an admin event about what a server has changed.
func (p pins) tell(ctx context.Context, number int64, news []store.PinKey) {
	if len(news) == 0 {
		return
	}
	u, err := p.b.Store.Upstreams.ByNumber(ctx, number)
	var names []string
	for _, k := range news {
		names = append(names, control.PinName(k.Kind, k.Name))
	}
	about := control.AboutPins(u.Slug, names)
	if err == nil {
		err = p.b.Store.AdminEvents.Add(ctx, store.AdminEvent{ID: uuid.Must(uuid.NewV7()).String(), At: time.Now(),
			Action: control.EventPinsChanged, About: about, Channel: "mcp"})
	}
	if err != nil {
		p.log.Error("that a tool server has changed its tools was not recorded", "upstream", number,
			"changed", strings.Join(names, ", "), "error", err)
		return
	}
	p.log.Warn("a tool server has changed what it offers", "upstream", u.Slug, "changed", about)
}
