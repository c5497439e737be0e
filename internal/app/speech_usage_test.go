package app

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"maps"
	"math"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"patchbay/internal/account"
	"patchbay/internal/config"
	"patchbay/internal/control"
	"patchbay/internal/hub"
	boards "patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
	"patchbay/internal/voice/engines/openai/openaitest"
)

// billing is a provider of speech that counts what it gets, and an installation whose only board
// uses it.
type billing struct {
	t        *testing.T
	provider *openaitest.Server
	seconds  atomic.Int64 // of sound, in samples
	folder   string
	today    atomic.Int64 // in Unix seconds
	mac      string
	flags    map[string]string
	bot      hub.NewBot
	owner    store.Person
	device   store.Device
	key      string // for the API

	url  string
	base *Base
}

func newBilling(t *testing.T) *billing {
	b := &billing{t: t, provider: openaitest.New(t), folder: storetest.Folder(t, t.TempDir()),
		mac: "02:00:00:00:00:01", bot: hub.NewBot{Name: "echo", Kind: "echo"}}
	b.flags = map[string]string{"speech.url": b.provider.URL, "speech.key": openaitest.Key, "speech.format": "pcm"}
	b.today.Store(time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC).Unix())
	b.provider.Transcript = func(samples []int16) string {
		b.seconds.Add(int64(len(samples)))
		return "What is the weather today?"
	}
	b.provider.Sound = func(text string) []int16 { return openaitest.Tone(text)[:openaitest.Rate/5] }
	return b
}

// start runs the server until the result is called.
func (b *billing) start() (stop func()) {
	t := b.t
	t.Helper()
	flags := map[string]string{"data": b.folder, "listen": "127.0.0.1:0", "lingzhu.push_url": "",
		"speech.person_minutes": "60", "xiaozhi.time_zone": "Asia/Shanghai"}
	maps.Copy(flags, b.flags)
	c, _, err := config.Load(config.Sources{Flags: flags})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- Serve(ctx, c, Options{Version: "test", Logs: io.Discard,
			Now:   func() time.Time { return time.Unix(b.today.Load(), 0) },
			Ready: func(url string, base *Base) { b.url, b.base = url, base; close(ready) }})
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		must(t, <-done)
	})
	t.Cleanup(stop)
	select {
	case <-ready:
	case err := <-done:
		done <- nil
		t.Fatal(err)
	}
	return stop
}

// board returns the board, which is approved when it calls for the first time.
func (b *billing) board(ctx context.Context) *boards.Board {
	return b.boardWith(ctx, boards.Options{}, func(boards.Event) {})
}

// boardWith is [billing.board] with options, and what else is done with its events.
func (b *billing) boardWith(ctx context.Context, o boards.Options, event func(boards.Event)) *boards.Board {
	t := b.t
	t.Helper()
	o.OTA, o.Scale, o.Slack, o.Lang, o.MAC = b.url+"/xiaozhi/ota/", 0.01, time.Minute, "en-US", b.mac
	o.UUID = "6d1f4b6e-0a3c-4a52-9d4b-3f0f1f6c1a01"
	o.OnEvent = func(e boards.Event) {
		if e.Kind != boards.EventCode {
			event(e)
			return
		}
		var err error
		if b.owner, err = b.base.Accounts.AddPerson(ctx, "ada", account.RoleAdmin, "en", "correct horse"); err != nil {
			return // the code was renewed
		}
		b.bot.Owner = b.owner.ID
		bot, _, err := b.base.Registry.Add(ctx, b.bot)
		if err == nil {
			b.device, err = b.base.Accounts.ApproveDevice(ctx, account.NewDevice{Person: b.owner.ID, Code: e.Text,
				Name: "desk", Bot: bot.Number})
		}
		if err != nil {
			t.Error(err)
		}
	}
	board := boards.New(o)
	t.Cleanup(board.Close)
	must(t, board.Boot(ctx))
	return board
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// question returns a question in packets of a board.
func question(t *testing.T) (packets [][]byte) {
	t.Helper()
	b, err := os.ReadFile("../voice/endpoint/testdata/01_what_is_the_weather_today.opk")
	must(t, err)
	for len(b) >= 2 {
		n := int(binary.BigEndian.Uint16(b))
		packets, b = append(packets, b[2:2+n]), b[2+n:]
	}
	return packets
}

// near fails a test unless a sum is what the provider has counted, within 1 %.
func near(t *testing.T, what string, got, counted float64) {
	t.Helper()
	if counted == 0 || math.Abs(got-counted) > counted/100 {
		t.Errorf("%s: %v, and the provider has counted %v", what, got, counted)
	}
}

// counted returns the seconds and characters that the provider has counted.
func (b *billing) counted() (seconds float64, characters int) {
	for _, text := range b.provider.Spoken() {
		characters += utf8.RuneCountInString(text)
	}
	return float64(b.seconds.Load()) / 16000, characters
}

// Sums are those that the provider has counted, and a restart keeps them. A limit that is reached,
// here by another instance, stops the next turn with a sentence, until the next day.
func TestSpeechUsageAndLimits(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	turns := 5 // of three seconds each
	if os.Getenv("CHECK_ALL") != "" {
		turns = 20
	}
	b := newBilling(t)
	stop := b.start()
	board := b.board(ctx)
	for range turns {
		a, err := board.Ask(ctx, question(t))
		must(t, err)
		if len(a.Sentences) != 1 {
			t.Fatalf("the board said %q", a.Sentences)
		}
	}
	board.Close()
	stop()

	stop = b.start()
	usage := b.base.Store.SpeechUsage
	today, err := usage.OfDay(ctx, "2026-11-25", b.owner.ID)
	must(t, err)
	seconds, characters := b.counted()
	near(t, "seconds", today[b.device.Number].Heard.Seconds(), seconds)
	near(t, "characters", float64(today[b.device.Number].Characters), float64(characters))
	sums := b.usage(ctx)
	near(t, "seconds of the API", sums.Total.Seconds, seconds)
	for _, list := range [][]control.Usage{sums.Days, sums.People, sums.Devices, sums.Engines} {
		if len(list) != 1 || list[0].Seconds != sums.Total.Seconds || list[0].Characters != int64(characters) {
			t.Errorf("the sums are %+v", sums)
		}
	}

	b.latency(ctx, int(sums.Total.Uses)/2)

	must(t, usage.Add(ctx, []store.SpeechUseKey{{Day: "2026-11-25", Owner: b.owner.ID, Device: 99, Engine: "elsewhere"}},
		[]store.SpeechUse{{Uses: 1, Heard: time.Hour}}))
	board = b.board(ctx)
	a, err := board.Ask(ctx, question(t))
	must(t, err)
	if want := []string{"That is all for today. We can talk again tomorrow."}; !slices.Equal(a.Sentences, want) {
		t.Errorf("the board said %q", a.Sentences)
	}
	_, err = board.Await(ctx, func(v boards.View) bool { return v.SessionID == "" })
	must(t, err)
	if after, _ := b.counted(); after != seconds {
		t.Errorf("the provider heard %v s more", after-seconds)
	}
	b.today.Add(4 * 60 * 60) // midnight in China
	a, err = board.Ask(ctx, question(t))
	must(t, err)
	if len(a.Sentences) != 1 || a.Transcript == "" {
		t.Errorf("on the next day: %+v", a)
	}
	board.Close()
	stop()
	b.start()
	if sums = b.usage(ctx); len(sums.Days) != 2 || sums.Days[0].Name != "2026-11-26" || sums.Days[0].Uses != 2 {
		t.Errorf("the days are %+v", sums.Days)
	}
}

// latency checks the times of so many turns that were answered.
func (b *billing) latency(ctx context.Context, turns int) {
	b.t.Helper()
	var l control.VoiceLatency
	b.call(ctx, http.MethodGet, "latency", nil, &l)
	var names []string
	last := int64(0)
	for _, s := range l.Stages {
		names = append(names, s.Name)
		if s.Turns != turns || s.MedianMS < last || s.P95MS < s.MedianMS {
			b.t.Errorf("a stage is reached before the one before it: %+v", l)
		}
		last = s.MedianMS
	}
	want := []string{control.StageCommit, control.StageTranscript, control.StageFirstText, control.StageFirstSentence,
		control.StageFirstSound}
	if l.Turns != turns || l.Interrupted != 0 || !slices.Equal(names, want) {
		b.t.Errorf("the times of %d turns are %+v", turns, l)
	}
}

// usage returns what the API shows to the owner, who is an administrator.
func (b *billing) usage(ctx context.Context) (u control.VoiceUsage) {
	b.t.Helper()
	b.call(ctx, http.MethodGet, "usage?days=2", nil, &u)
	return u
}

// call calls an operation on voice as the owner.
func (b *billing) call(ctx context.Context, method, path string, in, out any) {
	b.t.Helper()
	if b.key == "" {
		_, key, err := b.base.Accounts.AddKey(ctx, account.NewKey{Person: b.owner.ID, Name: "usage",
			Scopes: []string{account.ScopeAdmin}})
		must(b.t, err)
		b.key = key
	}
	body, err := json.Marshal(in)
	must(b.t, err)
	if in == nil {
		body = nil
	}
	req, err := http.NewRequestWithContext(ctx, method, b.url+"/api/v1/voice/"+path, bytes.NewReader(body))
	must(b.t, err)
	req.Header.Set("Authorization", "Bearer "+b.key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	must(b.t, err)
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		text, _ := io.ReadAll(resp.Body)
		b.t.Fatalf("%s %s: %s %s", method, path, resp.Status, text)
	}
	must(b.t, json.NewDecoder(resp.Body).Decode(out))
}
