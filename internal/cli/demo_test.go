package cli

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/internal/i18n"
)

func TestDemo(t *testing.T) {
	d := blankDesk(t)
	for _, lang := range []string{"zh", "en"} {
		t.Run(lang, func(t *testing.T) {
			t.Parallel()
			text := d.ok("demo", "--lang", lang)
			want := []string{"\n1  启动服务\n", "› 你好，Patchbay！\n", "⟶ take_photo\n", "绑定成功", "× 插件断线\n", "低头思故乡。", "⟶ take_navigation", "已经开始导航去动物园。", "你叫小明",
				"我看了温度计，书房: 21.5 °C。", "› 复习唐诗", "第 1 题，还剩 2 题：床前", "复习完了！这次 4 题，忘了 1 题。", "⇢ create_knowledge_point 这张照片是在哪里拍的？",
				"› [语音：复习单词]", "“厨房”说：答案：", "再撤销 8 个", "/learn/decks 上有“公式”", "设备叫“厨房”", "⇢ board-1_self_camera_take_photo", "听到 0.7 秒",
				"厨房听到：早上好！", "早上好，今天是晴天。", "机器人说出第一个字",
				"挖好了，深 30 厘米。", "挖好了，深 10 厘米。", "“厨房”自己说", "‹ 你好，龙虾！", "⇠ 欢迎回来", "上次的问题有结果了：票订好了", "用户名 ada，密码 ", "/devices 上有“厨房”",
				"/activity/calls 上有“home_set_lamp”", "全部通过"}
			if lang == "en" {
				want = []string{"\n1  The server starts\n", "‹ Hello, Patchbay!\n", "Connected!", "× the plugin loses",
					"of the night;", "⟶ take_navigation", "I have started navigation to the zoo. Have fun!", "you are Ming", "I looked at the thermometer: study: 21.5 °C.", "36 cards in 5 decks", "a formula: Euler's identity", "› quiz me on Poem", "All done! 4 reviewed, 1 forgotten.",
					"and came back in the same review", "a card with the photo", "› [spoken: quiz me on Words]",
					"kitchen says: Answer: ", "twice; each counts once", "undone again for 8", "log-loss",
					"today: 8 reviews, 2 forgotten", "/learn/decks displays “Formulas”",
					"it is called “kitchen”", "⇢ kitchen_self_camera_take_photo", "0.7 s of speech", "kitchen hears: Good morning!",
					"of sound: Good morning! It is sunny today.", "first words of the bot after", "A hole 30 cm deep was dug", "A hole 10 cm deep was dug",
					"“kitchen” sent a notice", "‹ Hello, Claw!", "⇠ Welcome back",
					"Your earlier question has an answer: Your ticket", "name ada, password ",
					"/devices displays “kitchen”", "/activity/calls displays “home_set_lamp”", "All steps passed"}
			}
			for _, w := range want {
				if !strings.Contains(text, w) {
					t.Errorf("%q is not in the story:\n%s", w, text)
				}
			}
			if n := strings.Count(text, "\n   ✓ "); n != len(demoSteps) {
				t.Errorf("%d steps passed, want %d", n, len(demoSteps))
			}
		})
	}
	t.Run("json", func(t *testing.T) {
		t.Parallel()
		checkDemoJSON(t, d)
	})
}

// checkDemoJSON runs the demo with --json.
func checkDemoJSON(t *testing.T, d *desk) {
	t.Helper()
	var names []string
	for line := range strings.Lines(d.ok("demo", "--json")) {
		var r stepReport
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if !r.OK || r.Step != len(names)+1 || r.Took <= 0 {
			t.Errorf("a step is %+v", r)
		}
		if v := r.Voice; (v != nil) != (r.Name == "voice") || v != nil && (v.Heard != "Good morning!" ||
			len(v.Said) == 0 || v.Played <= 0 || v.Transcript <= 0 || v.FirstText <= 0 || v.FirstSound <= 0) {
			t.Errorf("in step %s was spoken %+v", r.Name, v)
		}
		names = append(names, r.Name)
	}
	if got := strings.Join(names, " "); got != "serve ask bind plugin connector model tools board voice morning kitchen evening family nodes late console" {
		t.Errorf("the steps are %s", got)
	}
}

// TestDemoNoticesWhatIsWrong breaks what the steps demonstrate, and expects them to fail.
func TestDemoNoticesWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		name  string
		play  func(*demoRun) error
		wrong string
	}{
		{"a refused key", func(st *demoRun) error {
			st.key = "wrong"
			return playAsk(t.Context(), st)
		}, "Invalid authentication token"},
		{"a bot that is not there", func(st *demoRun) error {
			return playBind(t.Context(), st)
		}, "no bot Parrot"},
		{"a model that forgets", func(st *demoRun) error {
			if err := playModel(t.Context(), st); err != nil {
				return err
			}
			st.model.name = "Ludwig"
			heard, err := st.glasses(stranger, "2").say(t.Context(), msgWhatName.In(i18n.English))
			if err == nil {
				err = heard.expect(st.model.name)
			}
			return err
		}, `lacks "Ludwig"`},
		{"a photo that is not the one that was taken", func(st *demoRun) error {
			bot, err := st.find(t.Context(), msgLobster)
			if err != nil {
				return err
			}
			k, err := st.startKitchen(t.Context(), bot.Number)
			if err != nil {
				return err
			}
			k.photo = []byte("another")
			return k.takePhoto(t.Context())
		}, "not the one that was taken"},
		{"voice without a board", func(st *demoRun) error {
			return playVoice(t.Context(), st)
		}, "there is no board"},
		{"a learner without a board", func(st *demoRun) error {
			return playKitchen(t.Context(), st)
		}, "there is no board"},
		{"an evening without the reviews of the morning", func(st *demoRun) error {
			if err := st.importDeck(t.Context()); err != nil {
				return err
			}
			return playEvening(t.Context(), st)
		}, "the statistics have 2 reviews today"},
		{"nodes without a board", func(st *demoRun) error {
			return playNodes(t.Context(), st)
		}, "there is no board"},
		{"pages without a board", func(st *demoRun) error {
			return playConsole(t.Context(), st)
		}, `the page /devices does not show "kitchen"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := &demoRun{demoOutput: demoOutput{sh: newShell(nil, t.Output(), t.Output(), nil)}, folder: t.TempDir()}
			t.Cleanup(func() {
				if err := st.close(); err != nil {
					t.Error(err)
				}
			})
			if err := playServe(t.Context(), st); err != nil {
				t.Fatal(err)
			}
			if _, err := st.bot(t.Context(), msgLobster, "echo", nil); err != nil {
				t.Fatal(err)
			}
			if err := c.play(st); err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("the step ends with %v, want an error with %q", err, c.wrong)
			}
		})
	}
}

// The deck of the demo is written into a new file, which learn import reads.
func TestDemoDeck(t *testing.T) {
	d := blankDesk(t)
	file := filepath.Join(t.TempDir(), "demo.apkg")
	if text := d.ok("demo", "--deck", file); !strings.Contains(text, "36 cards") {
		t.Errorf("it says %s", text)
	}
	d.failing(exitFailed, "", []string{"demo", "--deck", file}, "file exists")
	d.ok("user", "add", "ada")
	if text := d.ok("learn", "import", file); !strings.Contains(text, "36 added") {
		t.Errorf("the import says %s", text)
	}
}

func TestChecksOfTheDemo(t *testing.T) {
	a := answered{Question: "q", Answer: "abc", Pieces: 2, Commands: []string{"take_photo"}}
	for name, err := range map[string]error{
		"other words": a.exactly("abcd", 1), "too few pieces": a.exactly("abc", 3),
		"a missing word": a.expect("ab", "x"), "another command": a.commanded("leave"),
	} {
		if err == nil {
			t.Errorf("%s pass", name)
		}
	}
	for name, err := range map[string]error{"exactly": a.exactly("abc", 2), "expect": a.expect("a", "c"),
		"commanded": a.commanded("take_photo")} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
