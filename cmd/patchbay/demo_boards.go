package main

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

	"patchbay/internal/account"
	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/store"
	"patchbay/internal/talk"
	"patchbay/internal/voice/pcm"
)

const (
	boardVolume = 30
	// boardSlack is how much later than a real board the simulated one complains:
	// the machine may be busy.
	boardSlack = 3 * time.Second
	// saidBack is the fewest packets in which a board says back the recorded words,
	// of 60 ms each.
	saidBack = 15
)

var (
	sayKitchen    = talk.Say{Zh: "厨房", En: "kitchen"}
	sayBoardShows = talk.Say{Zh: "屏幕：%s", En: "display: %s"}
	sayTypedIn    = talk.Say{Zh: "主人输入 %s，设备叫“%s”", En: "its owner types %s in; it is called “%s”"}
	sayOnBoard    = talk.Say{Zh: "你看到了什么？", En: "What do you see?"}
	sayBell       = talk.Say{Zh: "叮", En: "Ding"}
	sayGoodDay    = talk.Say{Zh: "[录音：good morning]", En: "[a recording: good morning]"}
	sayBoardNote  = talk.Say{Zh: "设备收到 %d 包声音，全部按时放完", En: "%d packets of sound for the board, all played in time"}
	sayPhotoBack  = talk.Say{Zh: "照片 %d 字节", En: "the photo, %d bytes"}
	sayPlayedBell = talk.Say{Zh: "没人说话时也响了", En: "it rang although nobody was talking with it"}
)

// playBoard has a voice board call home, be approved and called, take a photo, play a
// sound, and say back what was said to it.
func playBoard(ctx context.Context, st *stage) error {
	bot, err := st.base.Registry.Find(ctx, "", sayQwen.In(st.sh.lang))
	if err != nil {
		return err
	}
	k, err := st.turnOn(ctx, bot)
	if err != nil {
		return err
	}
	st.kitchen = k
	for _, step := range []func(context.Context) error{k.louder, k.see, k.ring, k.repeat} {
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
	st.note = sayBoardNote.In(st.sh.lang, r.Received)
	return nil
}

// kitchen is the board of the story, and the program that calls it.
type kitchen struct {
	*sim.Board
	st      *stage
	program *program
	photo   []byte
}

// turnOn turns a board on that becomes the person's, and gives a program a key.
func (st *stage) turnOn(ctx context.Context, bot store.Bot) (*kitchen, error) {
	lang := "zh-CN"
	if st.sh.lang == talk.English {
		lang = "en-US"
	}
	k := &kitchen{st: st, photo: inventedJPEG()}
	k.Board = sim.New(sim.Options{
		OTA: st.url + xiaozhi.HomePath, Lang: lang, Profile: sim.FW25, Picture: k.photo, Scale: 0.01, Slack: boardSlack, Steady: true,
	})
	st.stops = append(st.stops, func() error { k.Close(); return nil })
	if err := k.moveIn(ctx, bot); err != nil {
		return nil, err
	}
	_, key, err := st.base.Accounts.AddKey(ctx, account.NewKey{Person: st.person.ID, Name: "kitchen", Scopes: []string{account.ScopeMCP}})
	k.program = &program{st: st, key: key}
	return k, err
}

// moveIn turns the board on, and types in the code that it shows.
func (k *kitchen) moveIn(ctx context.Context, bot store.Bot) error {
	st, booted := k.st, make(chan error, 1)
	go func() { booted <- k.Boot(ctx) }()
	code := ""
	if err := await(ctx, "the board shows no code", func() (bool, error) {
		code = lastLine(k.Displayed())
		return len(code) == 6, nil
	}); err != nil {
		return errors.Join(err, <-booted)
	}
	st.line("▭", sayBoardShows.In(st.sh.lang, strings.ReplaceAll(k.Displayed(), "\n", " ")))
	name := sayKitchen.In(st.sh.lang)
	_, err := st.base.Accounts.ApproveDevice(ctx, account.NewDevice{Person: st.person.ID, Code: code, Name: name, Bot: bot.Number})
	if err != nil {
		return err
	}
	st.line("›", sayTypedIn.In(st.sh.lang, code, name))
	if err := <-booted; err != nil {
		return err
	}
	_, err = k.Await(ctx, func(v sim.View) bool { return v.Online })
	return err
}

func lastLine(text string) string { return text[strings.LastIndexByte(text, '\n')+1:] }

// call has the program call a tool of the board.
func (k *kitchen) call(ctx context.Context, end string, args map[string]any) (json.RawMessage, error) {
	name, err := k.program.tool(ctx, end)
	if err != nil {
		return nil, err
	}
	k.st.line("⇢", name)
	return k.program.ask(ctx, "tools/call", map[string]any{"name": name, "arguments": args})
}

// louder sets the volume of the board.
func (k *kitchen) louder(ctx context.Context) error {
	res, err := k.call(ctx, "_self_audio_speaker_set_volume", map[string]any{"volume": boardVolume})
	if err != nil {
		return err
	}
	if v := k.Volume(); v != boardVolume {
		return fmt.Errorf("the volume is %d, not %d, after %s", v, boardVolume, res)
	}
	return nil
}

// see has the board take a photo, which its bot looks at, and the program too.
func (k *kitchen) see(ctx context.Context) error {
	raw, err := k.call(ctx, "_self_camera_take_photo", map[string]any{"question": sayOnBoard.In(k.st.sh.lang)})
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
	if err := json.Unmarshal([]byte(res.Content[0].Text), &seen); err != nil || !strings.Contains(seen.Text, strconv.Itoa(len(k.photo))) {
		return fmt.Errorf("the bot did not see the photo of %d bytes: %s", len(k.photo), res.Content[0].Text)
	}
	k.st.line("⇠", sayPhotoBack.In(k.st.sh.lang, len(k.photo))+" "+seen.Text)
	return nil
}

// ring has the board play a sound although nobody talks with it.
func (k *kitchen) ring(ctx context.Context) error {
	res, err := k.call(ctx, "_play", map[string]any{"sound": bell(), "text": sayBell.In(k.st.sh.lang)})
	if err != nil {
		return err
	}
	if _, err := k.Await(ctx, func(v sim.View) bool { return v.Notices == 1 }); err != nil {
		return fmt.Errorf("the board did not play: %w; %s", err, res)
	}
	k.st.line("⇠", sayPlayedBell.In(k.st.sh.lang))
	return nil
}

// repeat says something to the board, which says it back.
func (k *kitchen) repeat(ctx context.Context) error {
	k.st.line("›", sayGoodDay.In(k.st.sh.lang))
	a, err := k.Ask(ctx, sim.GoodMorning())
	if err != nil {
		return err
	}
	if a.Packets < saidBack || a.Heard == "" {
		return fmt.Errorf("the board heard %q, and said back %d packets", a.Heard, a.Packets)
	}
	k.st.line("‹", a.Heard+" · "+strings.Join(a.Sentences, " "))
	return nil
}

// bell is a WAV file in which a bell rings for a second.
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
