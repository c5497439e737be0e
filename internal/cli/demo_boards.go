package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/voice/pcm"
)

const (
	boardVolume = 30
	// boardSlack is how much longer than a real board the simulated one waits: the machine may be
	// busy.
	boardSlack = 3 * time.Second
	// minEchoPackets is the minimum number of packets in which the board echoes the recorded
	// speech, of 60 ms each.
	minEchoPackets = 15
)

const (
	msgKitchen    = i18n.Message("kitchen")
	msgBoardShows = i18n.Message("display: %s")
	msgTypedIn    = i18n.Message("its owner enters %s; it is called “%s”")
	msgOnBoard    = i18n.Message("What do you see?")
	msgBell       = i18n.Message("Ding")
	msgGoodDay    = i18n.Message("[a recording: good morning]")
	msgBoardNote  = i18n.Message("%d audio packets sent to the board, all played in time")
	msgPhotoBack  = i18n.Message("the photo, %d bytes")
	msgPlayedBell = i18n.Message("it played a notification although nobody was talking to it")
)

// playBoard connects a board, approves and calls it, takes a photo, plays a sound, and has speech
// echoed.
func playBoard(ctx context.Context, st *demoRun) error {
	bot, err := st.find(ctx, msgQwen)
	if err != nil {
		return err
	}
	k, err := st.startKitchen(ctx, bot.Number)
	if err != nil {
		return err
	}
	st.kitchen = k
	for _, step := range []func(context.Context) error{k.setVolume, k.takePhoto, k.playBell, k.speak} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	r := k.Report()
	if len(r.Violations) > 0 {
		return fmt.Errorf("the board saw the server break rules: %v", r.Violations)
	}
	if lost := r.DroppedState + r.DroppedQueue + r.DroppedReset + r.TailCut; lost > 0 {
		return fmt.Errorf("%d packets were not played", lost)
	}
	st.note = msgBoardNote.In(st.sh.lang, r.Received)
	return nil
}

// demoKitchen is the board of the demo, and the program that calls its tools.
type demoKitchen struct {
	*sim.Board
	st      *demoRun
	program *demoProgram
	photo   []byte
}

// startKitchen starts a board, approves it for the person, and creates a key for a program.
func (st *demoRun) startKitchen(ctx context.Context, bot int64) (*demoKitchen, error) {
	k := &demoKitchen{st: st, photo: sampleJPEG()}
	k.Board = sim.New(sim.Options{
		OTA: st.url + xiaozhi.OTAPath, Lang: deviceLang(st.sh.lang), Profile: sim.FW25, Picture: k.photo, Scale: 0.01,
		Slack:  boardSlack,
		Steady: true,
	})
	st.stops = append(st.stops, func() error { k.Close(); return nil })
	if err := k.bind(ctx, bot); err != nil {
		return nil, err
	}
	key, err := st.newKey(ctx, "kitchen", "mcp")
	k.program = &demoProgram{st: st, key: key}
	return k, err
}

// bind starts the board and approves the code that it shows.
func (k *demoKitchen) bind(ctx context.Context, bot int64) error {
	st, booted := k.st, make(chan error, 1)
	go func() { booted <- k.Boot(ctx) }()
	code := ""
	if err := await(ctx, "the board shows no code", func() (bool, error) {
		code = lastLine(k.Displayed())
		return len(code) == 6, nil
	}); err != nil {
		return errors.Join(err, <-booted)
	}
	st.line("▭", msgBoardShows.In(st.sh.lang, strings.ReplaceAll(k.Displayed(), "\n", " ")))
	name := msgKitchen.In(st.sh.lang)
	_, err := api.ApproveDevice.Call(ctx, st.at, control.Approval{Code: code, Name: name,
		Bot: strconv.FormatInt(bot, 10)})
	if err != nil {
		return err
	}
	st.line("›", msgTypedIn.In(st.sh.lang, code, name))
	if err := <-booted; err != nil {
		return err
	}
	_, err = k.Await(ctx, func(v sim.View) bool { return v.Online })
	return err
}

func lastLine(text string) string { return text[strings.LastIndexByte(text, '\n')+1:] }

// call calls a tool of the board as the program.
func (k *demoKitchen) call(ctx context.Context, end string, args map[string]any) (json.RawMessage, error) {
	name, err := k.program.tool(ctx, end)
	if err != nil {
		return nil, err
	}
	k.st.line("⇢", name)
	return k.program.ask(ctx, "tools/call", map[string]any{"name": name, "arguments": args})
}

// setVolume sets the volume of the board.
func (k *demoKitchen) setVolume(ctx context.Context) error {
	res, err := k.call(ctx, "_self_audio_speaker_set_volume", map[string]any{"volume": boardVolume})
	if err != nil {
		return err
	}
	if v := k.Volume(); v != boardVolume {
		return fmt.Errorf("the volume is %d, not %d, after %s", v, boardVolume, res)
	}
	return nil
}

// takePhoto takes a photo with the board; both its bot and the program see it.
func (k *demoKitchen) takePhoto(ctx context.Context) error {
	raw, err := k.call(ctx, "_self_camera_take_photo", map[string]any{"question": msgOnBoard.In(k.st.sh.lang)})
	if err != nil {
		return err
	}
	var res struct {
		Content []struct {
			Text string
			Data []byte
		}
	}
	if err := json.Unmarshal(raw, &res); err != nil || len(res.Content) != 2 {
		return fmt.Errorf("the result of the photo is %s (%v)", raw, err)
	}
	if !bytes.Equal(res.Content[1].Data, k.photo) {
		return errors.New("the photo that came back is not the one that was taken")
	}
	var seen struct{ Text string }
	if err := json.Unmarshal([]byte(res.Content[0].Text), &seen); err != nil ||
		!strings.Contains(seen.Text, strconv.Itoa(len(k.photo))) {
		return fmt.Errorf("the bot did not see the photo of %d bytes: %s", len(k.photo), res.Content[0].Text)
	}
	k.st.line("⇠", msgPhotoBack.In(k.st.sh.lang, len(k.photo))+" "+seen.Text)
	return nil
}

// playBell plays a sound on the board outside a conversation.
func (k *demoKitchen) playBell(ctx context.Context) error {
	res, err := k.call(ctx, "_play", map[string]any{"sound": bell(), "text": msgBell.In(k.st.sh.lang)})
	if err != nil {
		return err
	}
	if _, err := k.Await(ctx, func(v sim.View) bool { return v.Notifications == 1 }); err != nil {
		return fmt.Errorf("the board did not play: %w; %s", err, res)
	}
	k.st.line("⇠", msgPlayedBell.In(k.st.sh.lang))
	return nil
}

// speak sends speech to the board, which echoes it.
func (k *demoKitchen) speak(ctx context.Context) error {
	k.st.line("›", msgGoodDay.In(k.st.sh.lang))
	a, err := k.Ask(ctx, sim.GoodMorning())
	if err != nil {
		return err
	}
	if a.Packets < minEchoPackets || a.Transcript == "" {
		return fmt.Errorf("the board heard %q, and said back %d packets", a.Transcript, a.Packets)
	}
	k.st.line("‹", a.Transcript+" · "+strings.Join(a.Sentences, " "))
	return nil
}

// bell returns a WAV file with a bell of one second.
func bell() []byte {
	const rate = 24000
	samples := make([]int16, rate)
	for i := range samples {
		t := float64(i) / rate
		fade := math.Exp(-4 * t)
		samples[i] = int16(9000 * fade * (math.Sin(2*math.Pi*880*t) + 0.5*math.Sin(2*math.Pi*2217*t)))
	}
	var b bytes.Buffer
	if err := pcm.WriteWAV(&b, rate, samples); err != nil {
		panic(err) // writing to memory does not fail
	}
	return b.Bytes()
}
