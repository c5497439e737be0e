package observe

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
)

// terminalHandler writes log lines for people: the time of day, the level unless it is info, the
// message, and the attributes.
type terminalHandler struct {
	mu    *sync.Mutex
	w     io.Writer
	level slog.Level
	attrs string // formatted already
	group string
}

func (h *terminalHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level }

func (h *terminalHandler) Handle(_ context.Context, r slog.Record) error {
	var b bytes.Buffer
	b.WriteString(r.Time.Format("15:04:05 "))
	if r.Level != slog.LevelInfo {
		b.WriteString(r.Level.String() + " ")
	}
	b.WriteString(oneLine(r.Message))
	b.WriteString(h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		b.WriteString(attr(h.group, a))
		return true
	})
	b.WriteByte('\n')
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := h.w.Write(b.Bytes())
	return err
}

func (h *terminalHandler) WithAttrs(list []slog.Attr) slog.Handler {
	more := *h
	for _, a := range list {
		more.attrs += attr(h.group, a)
	}
	return &more
}

func (h *terminalHandler) WithGroup(name string) slog.Handler {
	more := *h
	if name != "" {
		more.group += name + "."
	}
	return &more
}

// attr formats an attribute as " name=value". The value is quoted if it has whitespace or
// characters that control a terminal.
func attr(group string, a slog.Attr) string {
	v := a.Value.Resolve()
	if a.Equal(slog.Attr{}) {
		return ""
	}
	if v.Kind() == slog.KindGroup {
		if a.Key != "" {
			group += a.Key + "."
		}
		text := ""
		for _, b := range v.Group() {
			text += attr(group, b)
		}
		return text
	}
	value := v.String()
	if value == "" || strings.ContainsFunc(value, func(r rune) bool {
		return r <= ' ' || r == '"' || r == '=' ||
			r == 0x7f
	}) {
		value = fmt.Sprintf("%q", value)
	}
	return " " + group + a.Key + "=" + value
}

// oneLine removes control characters, so that a message stays one line and cannot control the
// terminal.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
}
