package test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/plug/xiaozhi/sim"
)

// boardPicture returns what boards' cameras see: a JPEG file.
func boardPicture(t *testing.T) []byte {
	t.Helper()
	im := image.NewGray(image.Rect(0, 0, 320, 240))
	for i := range im.Pix {
		im.Pix[i] = byte(i * i >> 3)
	}
	var w bytes.Buffer
	must(t, jpeg.Encode(&w, im, nil))
	return w.Bytes()
}

// Whatever happens to boards, their networks and their tools, the next question is answered, and no
// resources remain when they are gone.
func TestBoardsMisbehave(t *testing.T) {
	h := newBoardServer(t)
	limit := limited(t, 60*time.Second)
	before := h.goroutines()
	both, socket, udp := []string{"websocket", "mqtt"}, []string{"websocket"}, []string{"mqtt"}
	var all sync.WaitGroup
	for _, test := range []struct {
		name string
		ways []string
		opt  sim.Options
		do   func(context.Context, *boardServer, *sim.Board) error
	}{
		{"photo", both, sim.Options{Picture: boardPicture(t)}, photoInTalk},
		{"lost", both, sim.Options{}, comesBack},
		{"odd", both, sim.Options{}, saysOdd},
		{"barge-in", both, sim.Options{}, bargesIn},
		{"rebound", udp, sim.Options{}, rebinds},
		{"lossy", udp, sim.Options{Faults: sim.Faults{Loss: 0.05, Duplicate: 0.05, Reorder: 0.05}}, throughLoss},
		{"late tools", socket, sim.Options{Faults: sim.Faults{ToolDelay: 2 * time.Second}}, lateTools},
		{"tools twice", both, sim.Options{Faults: sim.Faults{DuplicateToolResults: true}}, toolsTwice},
		{"mute tools", both, sim.Options{Faults: sim.Faults{DropToolResults: true}}, muteTools},
	} {
		for _, way := range test.ways {
			name := test.name + " " + way
			test.opt.KeepAudio = true
			b := h.mine(name, way, test.opt)
			all.Go(func() { // not parallel subtests, whose number is limited to that of processors
				defer b.Close()
				err := b.Boot(limit)
				if err == nil {
					err = test.do(limit, h, b)
				}
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
				for _, v := range b.Report().Violations {
					t.Errorf("%s: %v", name, v)
				}
			})
		}
	}
	all.Wait()
	h.quiet(before)
}

// says asks a question and checks that the answer repeats it.
func says(ctx context.Context, b *sim.Board) error {
	a, err := b.Ask(ctx, sim.GoodMorning())
	if err != nil {
		return err
	}
	return repeated(a)
}

// asked asks a question and does not wait for the end of the answer.
func asked(ctx context.Context, b *sim.Board) error {
	if err := b.Talk(ctx, sim.GoodMorning()); err != nil {
		return err
	}
	_, err := b.Await(ctx, is(sim.Speaking))
	return err
}

// wake turns a board on and waits until its tools are known.
func (h *boardServer) wake(ctx context.Context, b *sim.Board) error {
	if err := b.Wake(ctx); err != nil {
		return err
	}
	return h.awaitTools(ctx, b.MAC())
}

func photoInTalk(ctx context.Context, h *boardServer, b *sim.Board) error {
	if err := h.wake(ctx, b); err != nil {
		return err
	}
	got, err := h.call(ctx, b.MAC(), "self.camera.take_photo", given{"question": "What is there?"})
	if err != nil {
		return err
	}
	if !bytes.Equal(got.data(h.t, "image"), boardPicture(h.t)) || b.Report().Photos != 1 {
		return fmt.Errorf("of %d photos, another one came", b.Report().Photos)
	}
	return says(ctx, b)
}

func comesBack(ctx context.Context, h *boardServer, b *sim.Board) error {
	overMQTT := b.View().Online
	for _, how := range []sim.Loss{sim.Reset, sim.Vanished, sim.Dropped} {
		if err := h.wake(ctx, b); err != nil {
			return err
		}
		session := b.View().SessionID
		if how == sim.Vanished { // during an answer
			if err := asked(ctx, b); err != nil {
				return err
			}
		}
		err := b.Lose(how)
		if err == nil {
			_, err = b.Await(ctx, func(v sim.View) bool { return settled(v) && v.Online == overMQTT })
		}
		if err == nil {
			err = says(ctx, b)
		}
		if err != nil {
			return fmt.Errorf("lost %d: %w", how, err)
		}
		if again := b.View().SessionID; again == session || again == "" {
			return fmt.Errorf("the session is %q, and was %q", again, session)
		}
		if _, err := h.call(ctx, b.MAC(), "self.screen.set_theme", given{"theme": "dark"}); err != nil {
			return fmt.Errorf("lost %d, and called: %w", how, err)
		}
		if err := hangUp(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

func hangUp(ctx context.Context, b *sim.Board) error {
	if err := b.Press(ctx); err != nil {
		return err
	}
	_, err := b.Await(ctx, settled)
	return err
}

func saysOdd(ctx context.Context, _ *boardServer, b *sim.Board) error {
	err := b.Wake(ctx)
	for _, text := range []string{
		"", "{", "[]", "null", "\xff\xfe", `{"type":"nothing"}`, `{"type":7}`, `{"type":"listen"}`,
		`{"type":"listen","state":"detect"}`,
		`{"type":"iot","states":[]}`, `{"type":"mcp"}`, `{"type":"mcp","payload":null}`, `{"type":"mcp","payload":[]}`,
		`{"type":"mcp","payload":{"jsonrpc":"2.0","id":99999,"result":{}}}`,
		`{"type":"mcp","payload":{"jsonrpc":"2.0","method":"notifications/button","params":{}}}`,
		strings.Repeat(`{"type":`, 500), `{"type":"nothing","text":"` + strings.Repeat("x", 4000) + `"}`,
	} {
		if err == nil {
			err = b.SendRaw(false, []byte(text))
		}
	}
	for _, n := range []int{0, 1, 2, 15, 16, 17, 120, 1400} {
		for _, fill := range []byte{0, 0xff} {
			if err == nil {
				err = b.SendRaw(true, bytes.Repeat([]byte{fill}, n))
			}
		}
	}
	for range 2 {
		if err == nil {
			err = says(ctx, b)
		}
	}
	return err
}

func bargesIn(ctx context.Context, _ *boardServer, b *sim.Board) error {
	if err := b.Wake(ctx); err != nil {
		return err
	}
	for range 3 {
		if err := asked(ctx, b); err != nil {
			return err
		}
		if err := b.Wake(ctx); err != nil {
			return err
		}
	}
	before := b.View().Answers
	if err := b.Talk(ctx, sim.GoodMorning()); err != nil {
		return err
	}
	if _, err := b.Await(ctx, func(v sim.View) bool {
		return v.Answers > before &&
			v.State == sim.Listening
	}); err != nil {
		return err
	}
	return repeated(b.LastAnswer())
}

func rebinds(ctx context.Context, _ *boardServer, b *sim.Board) error {
	err := says(ctx, b)
	if err == nil {
		err = b.Rebind(ctx)
	}
	if err == nil {
		err = asked(ctx, b)
	}
	if err == nil { // the server cannot know where to send the rest of the answer
		err = b.Rebind(ctx)
	}
	if err == nil {
		_, err = b.Await(ctx, is(sim.Listening))
	}
	if err == nil {
		err = says(ctx, b)
	}
	return err
}

func throughLoss(ctx context.Context, _ *boardServer, b *sim.Board) error {
	for range 3 {
		a, err := b.Ask(ctx, sim.GoodMorning())
		if err != nil {
			return err
		}
		if a.Packets < 15 || a.Packets > 50 {
			return fmt.Errorf("%d packets were heard", a.Packets)
		}
	}
	if n := b.Report().Hellos; n != 1 {
		return fmt.Errorf("it took %d conversations", n)
	}
	return nil
}

func lateTools(ctx context.Context, h *boardServer, b *sim.Board) error {
	if err := h.wake(ctx, b); err != nil {
		return err
	}
	result := make(chan error, 1)
	began := time.Now()
	go func() {
		_, err := h.call(ctx, b.MAC(), "self.audio_speaker.set_volume", given{"volume": 30})
		if took := time.Since(began); err == nil && took < 2*time.Second {
			err = fmt.Errorf("it is done after %v", took)
		}
		result <- err
	}()
	said := says(ctx, b)
	if err := errors.Join(<-result, said); err != nil || b.Volume() != 30 {
		return fmt.Errorf("the volume is %d: %w", b.Volume(), err)
	}
	return nil
}

// toolsTwice checks that a duplicate response is not taken for the response to the next call.
func toolsTwice(ctx context.Context, h *boardServer, b *sim.Board) error {
	if err := h.wake(ctx, b); err != nil {
		return err
	}
	for volume := range 5 {
		got, err := h.call(ctx, b.MAC(), "self.audio_speaker.set_volume", given{"volume": volume})
		if err != nil || got.text() != "true" {
			return fmt.Errorf("set to %d, it says %+v (%w)", volume, got, err)
		}
		if got, err = h.call(ctx, b.MAC(), "self.get_device_status", given{}); err != nil {
			return err
		}
		var status struct {
			Speaker struct{ Volume int } `json:"audio_speaker"`
		}
		if err := json.Unmarshal([]byte(got.text()), &status); err != nil || status.Speaker.Volume != volume {
			return fmt.Errorf("set to %d, it tells %q (%w)", volume, got.text(), err)
		}
	}
	return nil
}

// muteTools has a board that answers no call: callers can cancel, the conversation continues, and
// waiting callers get an error when it ends.
func muteTools(ctx context.Context, h *boardServer, b *sim.Board) error {
	if err := h.wake(ctx, b); err != nil {
		return err
	}
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if _, err := h.call(short, b.MAC(), "self.audio_speaker.set_volume", given{"volume": 30}); short.Err() == nil {
		return fmt.Errorf("who would leave after a second is told before: %w", err)
	}
	const waiting = 3
	results := make(chan error, waiting)
	for range waiting {
		go func() {
			_, err := h.call(ctx, b.MAC(), "self.get_device_status", given{})
			results <- err
		}()
	}
	err := says(ctx, b)
	began := time.Now()
	if err = errors.Join(err, b.Lose(sim.Reset)); err != nil {
		return err
	}
	for range waiting {
		if err := <-results; refused(err) != "lost" && refused(err) != "offline" {
			return fmt.Errorf("those who wait are told %w", err)
		}
	}
	if took := time.Since(began); took > 5*time.Second {
		return fmt.Errorf("they are told after %v", took)
	}
	return nil
}
