package rokid_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
	"patchbay/internal/plug/rokid"
	"patchbay/internal/talk"
)

// TestPiecesArriveAsTheyAre checks that a whitespace-only piece is part of the answer.
func TestPiecesArriveAsTheyAre(t *testing.T) {
	d := newHandlerRig(t, options{})
	bot := d.AddScript(t, map[string]string{"plain": "none"}, say("一。", "\n\n", "   ", "二。", "🦞"))
	h := listen(t, d.send(t, ctx, d.keyFor(t, bot.Number), turn(agent, wearer, sessionKey, "?", "")).Body)
	if h.text != "一。\n\n   二。🦞" || len(h.events) != 7 {
		t.Errorf("%d events, %q", len(h.events), h.text)
	}
}

func TestFailuresAreToldInWords(t *testing.T) {
	d := newHandlerRig(t, options{rig: hubtest.Options{Hub: hub.Options{FirstPieceTimeout: 100 * time.Millisecond,
		IdleTimeout: 100 * time.Millisecond}}})
	hang := func(ctx context.Context, _ *talk.Turn, _ talk.Emit) error { <-ctx.Done(); return ctx.Err() }
	cases := map[string]struct {
		bot  hubtest.Func
		want string
	}{
		"failed": {func(context.Context, *talk.Turn, talk.Emit) error {
			return talk.Fail(talk.BotFailed, "模型拒绝", errors.New("key sk-123"))
		}, "处理出错：模型拒绝"},
		"nothing": {say(), "我没有得到回答，请再说一次。"},
		"silence": {hang, "请求超时，机器人可能已离线或响应缓慢，请稍后重试。"},
		"half silence": {func(ctx context.Context, turn *talk.Turn, emit talk.Emit) error {
			emit(talk.Text("一半"))
			return hang(ctx, turn, emit)
		}, "一半（未完成）"},
		"half failed": {func(_ context.Context, _ *talk.Turn, emit talk.Emit) error {
			emit(talk.Text("一半"))
			return errors.New("boom")
		}, "一半\n处理出错，请稍后重试。"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			bot := d.AddScript(t, nil, c.bot)
			h := listen(t, d.send(t, ctx, d.keyFor(t, bot.Number), turn(agent, wearer, sessionKey, "?", "")).Body)
			if h.text != c.want || len(h.errors) > 0 {
				t.Errorf("heard %q %v, want %q", h.text, h.errors, c.want)
			}
		})
	}
	t.Run("offline", func(t *testing.T) {
		bot := d.Add(t, "plugin", nil)
		h := listen(t, d.send(t, ctx, d.keyFor(t, bot.Number), turn(agent, wearer, sessionKey, "?", "")).Body)
		if h.text != "机器人已离线，请检查设备连接后重试。" {
			t.Errorf("heard %q", h.text)
		}
	})
	t.Run("nothing was said", func(t *testing.T) {
		if h := listen(t, d.post(t, turn("1", "", sessionKey, " ", "")).Body); h.text != "我没有听清，请再说一次。" {
			t.Errorf("heard %q", h.text)
		}
	})
}

func TestSignsOfLifeWhileTheBotThinks(t *testing.T) {
	wait := "想一想…"
	d := newHandlerRig(t, options{change: func(o *rokid.Options) {
		o.Heartbeat, o.WaitingText, o.WaitingAfter = 10*time.Millisecond, wait, 25*time.Millisecond
	}})
	release := make(chan struct{})
	bot := d.AddScript(t, nil, func(_ context.Context, _ *talk.Turn, emit talk.Emit) error {
		<-release
		return emit(talk.Text("好"))
	})
	res := d.send(t, ctx, d.keyFor(t, bot.Number), turn(agent, wearer, sessionKey, "?", ""))
	h, err := parse(io.TeeReader(res.Body, &untilSeen{then: release}), nil)
	must(t, err)
	if h.comments < 2 || h.text != wait+"\n好" {
		t.Errorf("%d comments, %q", h.comments, h.text)
	}
}

// untilSeen closes a channel when the waiting text and two comments were written to it.
type untilSeen struct {
	bytes.Buffer
	then chan struct{}
	done bool
}

func (u *untilSeen) Write(p []byte) (int, error) {
	n, err := u.Buffer.Write(p)
	if !u.done && bytes.Contains(u.Bytes(), []byte("event: message")) &&
		bytes.Count(u.Bytes(), []byte(": heartbeat")) >= 2 {
		u.done = true
		close(u.then)
	}
	return n, err
}

func TestQuietStart(t *testing.T) {
	d := newHandlerRig(t, options{})
	bot := d.AddScript(t, map[string]string{"quiet_start": "true"}, say("x"))
	text := raw(t, d.send(t, ctx, d.keyFor(t, bot.Number), turn(agent, wearer, sessionKey, "?", "")))
	if !strings.HasPrefix(text, "event: message\n") {
		t.Errorf("begins with %.40q", text)
	}
}

// TestDisconnect checks that nothing of a request is left after the glasses disconnect, and that
// the answer comes with the next turn.
func TestDisconnect(t *testing.T) {
	d := newHandlerRig(t, options{})
	release, ended := make(chan struct{}), make(chan struct{})
	bot := d.AddScript(t, map[string]string{"concurrent": "1"},
		func(_ context.Context, turn *talk.Turn, emit talk.Emit) error {
			if turn.Text() == "快" {
				return emit(talk.Text("快的"))
			}
			defer close(ended)
			emit(talk.Text("慢"))
			<-release
			return emit(talk.Text("的"))
		})
	key := d.keyFor(t, bot.Number)
	before := runtime.NumGoroutine()
	calling, hangUp := context.WithCancel(ctx)
	res := d.send(t, calling, key, turn(agent, wearer, sessionKey, "慢", ""))
	buf := make([]byte, 4096)
	for got := ""; !strings.Contains(got, "慢"); {
		n, err := res.Body.Read(buf)
		must(t, err)
		got += string(buf[:n])
	}
	hangUp()
	res.Body.Close()
	awaitTrace(t, d, bot.Number) // the handler has noticed
	close(release)
	<-ended
	h := listen(t, d.send(t, ctx, key, turn(agent, wearer, sessionKey, "快", "")).Body)
	for h.text == "快的" { // the late answer is being stored
		h = listen(t, d.send(t, ctx, key, turn(agent, wearer, fmt.Sprint(time.Now().UnixNano()), "快", "")).Body)
	}
	if h.text != "上次的问题有结果了：慢的\n\n快的" {
		t.Errorf("heard %q", h.text)
	}
	http.DefaultClient.CloseIdleConnections()
	deadline := time.Now().Add(5 * time.Second)
	for runtime.NumGoroutine() > before+2 {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
		runtime.Gosched()
	}
}

// TestManyAnswersAtOnce checks that every piece of every answer arrives, once and in order.
func TestManyAnswersAtOnce(t *testing.T) {
	answers, pieces := 100, 200
	if os.Getenv("CHECK_ALL") != "" { // on a busy machine a piece takes longer than its timeout
		answers = 500
	}
	d := newHandlerRig(t, options{})
	var want strings.Builder
	for i := range pieces {
		fmt.Fprint(&want, i, ",")
	}
	bot := d.AddScript(t, nil, func(_ context.Context, turn *talk.Turn, emit talk.Emit) error {
		for i := range pieces {
			if err := emit(talk.Text(fmt.Sprint(i, ","))); err != nil {
				return err
			}
		}
		return nil
	})
	key := d.keyFor(t, bot.Number)
	var wg sync.WaitGroup
	for i := range answers {
		wg.Go(func() {
			req, err := http.NewRequest(http.MethodPost, d.url,
				strings.NewReader(turn(agent, fmt.Sprint("U", i), sessionKey, "go", "")))
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Authorization", "Bearer "+key)
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			defer res.Body.Close()
			h := listen(t, res.Body)
			if h.text != want.String() || len(h.events) != pieces+2 {
				t.Errorf("answer %d: %d events, %.60q…", i, len(h.events), h.text)
			}
		})
	}
	wg.Wait()
	traces, err := d.Store.Traces.Newest(ctx, "", time.Now().Add(time.Hour), 1000)
	must(t, err)
	for _, tr := range traces {
		if tr.Outcome != "done" || tr.Pieces != int64(pieces) {
			t.Errorf("trace %+v", tr)
		}
	}
	if len(traces) != answers {
		t.Errorf("%d traces of %d answers", len(traces), answers)
	}
}
