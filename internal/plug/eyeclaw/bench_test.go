package eyeclaw

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"patchbay/internal/talk"
)

// one is a registry and a token store for a single bot.
type one struct{ bot chan talk.Bot }

func (o one) BotByToken(context.Context, string) (Bot, error) {
	return Bot{Number: 7, Kind: Kind}, nil
}

func (o one) Attach(_ int64, b talk.Bot, _, _ int) func() { o.bot <- b; return func() {} }
func (one) Renew(int64)                                   {}

// BenchmarkPiece measures the way of a chunk from the plugin's write to emit, through a real
// socket. The acknowledgement is sent in the meantime.
func BenchmarkPiece(b *testing.B) {
	o := one{make(chan talk.Bot, 1)}
	s := New(Options{Registry: o, Tokens: o})
	srv := httptest.NewServer(s)
	defer srv.Close()
	defer func() { _ = s.Shutdown(context.Background()) }()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ws, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(srv.URL, "http")+"/cable?sdk_token=x", nil)
	if err != nil {
		b.Fatal(err)
	}
	go func() {
		for {
			if _, _, err := ws.Read(ctx); err != nil {
				return
			}
		}
	}()
	write := func(frame string) {
		if err := ws.Write(ctx, websocket.MessageText, []byte(frame)); err != nil {
			b.Fatal(err)
		}
	}
	ident := `"{\"channel\":\"BotChannel\",\"bot_id\":\"7\"}"`
	write(`{"command":"subscribe","identifier":` + ident + `}`)
	bot := <-o.bot
	got := make(chan struct{}, 1)
	done := make(chan error, 1)
	go func() {
		done <- bot.Answer(ctx, &talk.Turn{ID: "t1", Parts: []talk.Part{{Text: "x"}}}, func(talk.Event) error {
			got <- struct{}{}
			return nil
		})
	}()
	h := s.bots[7]
	for sent := false; !sent; {
		h.mu.Lock()
		sent = h.turns["t1"] != nil && h.turns["t1"].sent
		h.mu.Unlock()
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		write(fmt.Sprintf(`{"command":"message","identifier":%s,"data":"{\"type\":\"stream_chunk\",\"content\":\"嘿。\",\"session_id\":\"t1\",\"sequence\":%d}"}`, ident, i))
		<-got
		i++
	}
	cancel()
	<-done
}
