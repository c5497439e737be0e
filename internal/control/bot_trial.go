package control

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"patchbay/internal/talk"
)

// Trial is how a bot answered a question that was put to it to see whether it does.
type Trial struct {
	// Asked is what it was asked.
	Asked string `json:"asked"`
	// Notes are words about the work, and Text is the answer, so far.
	Notes []string `json:"notes,omitempty"`
	Text  string   `json:"text,omitempty"`
	// First and Total are how long it took to the first piece, and to the end.
	First time.Duration `json:"first"`
	Total time.Duration `json:"total"`
	Ended bool          `json:"ended"`
	// Problem is why there is no complete answer, and Do what helps, in words for the
	// bot's owner. Cause is more about it. Command is what is to be run at the far side.
	Problem string    `json:"problem,omitempty"`
	Do      string    `json:"do,omitempty"`
	Cause   string    `json:"cause,omitempty"`
	Command string    `json:"command,omitempty"`
	Code    talk.Code `json:"code,omitempty"`
}

// OK says that the bot has answered.
func (t *Trial) OK() bool { return t.Ended && t.Code == "" }

// trialText bounds how much of an answer is kept of a trial, in bytes.
const trialText = 4 << 10

var sayTrial = talk.Say{Zh: "你好！这是一次连接测试，请用一句话回答。",
	En: "Hello! This is a test of the connection. Please answer in one sentence."}

// Why a bot does not answer, and what its owner can do, by the kind of failure.
var (
	sayWhyOffline = talk.Say{Zh: "机器人没有连接到这里。", En: "The bot is not connected here."}
	sayDoPlugin   = talk.Say{Zh: "在运行 OpenClaw 的电脑上看看网关是否在运行，插件里的地址和令牌是否正确；令牌丢了可以在设置里换一个。",
		En: "At the computer where OpenClaw runs, see whether the gateway runs and whether the plugin has the right address and token; if the token is lost, make another in the settings."}
	sayDoGateway = talk.Say{Zh: "看看那个网关是否在运行，设置里的地址和令牌是否正确。",
		En: "See whether that gateway runs, and whether its address and token in the settings are right."}
	sayWhyTimeout = talk.Say{Zh: "等了太久也没有回答。", En: "No answer came for too long."}
	sayDoTimeout  = talk.Say{Zh: "模型第一次加载可能很慢：过一会儿再试，或在设置里把等待时间调长。",
		En: "A model can be slow while it is loaded: try again in a moment, or allow more time in the settings."}
	sayWhyBusy = talk.Say{Zh: "有太多问题在排队。", En: "Too many questions are waiting."}
	sayDoBusy  = talk.Say{Zh: "过一会儿再试，或在设置里允许同时回答更多问题。",
		En: "Try again in a moment, or let the bot answer more at a time in the settings."}
	sayWhyLost = talk.Say{Zh: "回答到一半时连接断了。", En: "The connection broke in the middle of the answer."}
	sayDoAgain = talk.Say{Zh: "再试一次。如果总是这样，看看它那边的网络和日志。",
		En: "Try again. If that happens each time, look at its network and its log."}
	sayWhyNoAnswer    = talk.Say{Zh: "机器人结束了，却一个字也没有说。", En: "The bot ended without a word."}
	sayWhyStopping    = talk.Say{Zh: "服务正在重启。", En: "The server is restarting."}
	sayDoSoon         = talk.Say{Zh: "稍等一会儿再试。", En: "Try again in a moment."}
	sayWhyInternal    = talk.Say{Zh: "我们这边出了问题。", En: "Something is wrong on our side."}
	sayDoInternal     = talk.Say{Zh: "日志里有原因。", En: "The log of the server tells what."}
	sayWhyUnreachable = talk.Say{Zh: "我们连不上机器人。", En: "We cannot connect to the bot."}
	sayWhyFailed      = talk.Say{Zh: "机器人报告出错：%s", En: "The bot reported an error: %s"}
	sayWhyFailed0     = talk.Say{Zh: "机器人报告出错，没有说明原因。", En: "The bot reported an error without saying which."}
	sayDoModel        = talk.Say{Zh: "检查设置里的地址、模型名称和密钥。",
		En: "Check the address, the name of the model and the key in the settings."}
	sayDoFarCommand = talk.Say{Zh: "在机器人那边的电脑上运行：", En: "Run at the bot's computer:"}
)

// TryBot puts a question to a bot the way that glasses do, and tells how it went. The
// question and the answer are not remembered. step, if it is not nil, is told how far
// it is, from one goroutine; its error ends the trial.
func (s *Service) TryBot(ctx context.Context, c Caller, in BotRef, step func(*Trial) error) (*Trial, error) {
	b, err := s.FindBot(ctx, c, in.Bot)
	if err != nil {
		return nil, err
	}
	t := &Trial{Asked: sayTrial.In(c.Lang)}
	if step == nil {
		step = func(*Trial) error { return nil }
	}
	if err := step(t); err != nil {
		return nil, err
	}
	began := time.Now()
	turn := &talk.Turn{ID: uuid.Must(uuid.NewV7()).String(), Bot: b.Number, Channel: c.channel(), Asker: c.Person,
		Address: c.Address, KeyRules: c.Bound, BotOnly: c.Only != 0, Lang: c.Lang, Parts: []talk.Part{{Text: t.Asked}}}
	turn.Conversation = turn.ID // so that it is no repetition of the trial before
	err = s.Hub.Answer(ctx, turn, func(e talk.Event) error {
		switch e.Kind {
		case talk.KindText:
			if t.First == 0 {
				t.First = max(time.Since(began), 1)
			}
			if len(t.Text) < trialText {
				t.Text += e.Text
			}
		case talk.KindNote:
			if len(t.Notes) < 20 {
				t.Notes = append(t.Notes, e.Text)
			}
		default:
			return nil
		}
		return step(t)
	})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	t.Total, t.Ended = time.Since(began), true
	t.Text = strings.ToValidUTF8(t.Text, "")
	if f := talk.AsFailure(err); f != nil {
		t.Code = f.Code
		is, err := s.BotState(ctx, c, in) // not as it was before the question
		if err != nil {
			return nil, err
		}
		s.explain(t, is, f, c.Lang)
	}
	return t, step(t)
}

// explain says why a bot did not answer. What is known of its connection says more than
// the failure.
func (s *Service) explain(t *Trial, b BotStatus, f *talk.Failure, l talk.Lang) {
	why, do := sayWhyFailed0, sayDoAgain
	switch f.Code {
	case talk.Offline:
		why, do = sayWhyOffline, s.connectBotAction(b)
	case talk.TimedOut:
		why, do = sayWhyTimeout, sayDoTimeout
	case talk.Busy:
		why, do = sayWhyBusy, sayDoBusy
	case talk.Lost:
		why = sayWhyLost
	case talk.NoAnswer:
		why = sayWhyNoAnswer
	case talk.Stopping:
		why, do = sayWhyStopping, sayDoSoon
	case talk.Internal:
		why, do = sayWhyInternal, sayDoInternal
	case talk.BotFailed:
		do = s.connectBotAction(b)
	case talk.Unreachable:
		why, do = sayWhyUnreachable, s.connectBotAction(b)
	}
	t.Problem, t.Do = why.In(l), do.In(l)
	if f.Code == talk.BotFailed && f.Told != "" {
		t.Problem = sayWhyFailed.In(l, f.Told)
	}
	t.Cause = truncate(f.Cause)
	if b.Problem != "" {
		// It is made of the same cause, in the owner's language.
		t.Problem, t.Do, t.Command = b.Problem, "", b.Command
		if b.Kind != "openai" { // of a model the words name the kind of failure only
			t.Cause = ""
		}
		if t.Command != "" {
			t.Do = sayDoFarCommand.In(l)
		}
	}
}

// connectBotAction is what helps against a far side that is not there, or answers wrongly.
func (s *Service) connectBotAction(b BotStatus) talk.Say {
	switch b.Kind {
	case "openai":
		return sayDoModel
	case "openclaw":
		return sayDoGateway
	}
	if s.Hub.Registry.IsInbound(b.Kind) {
		return sayDoPlugin
	}
	return sayDoAgain
}

// truncate is as much of a cause as is of use to somebody.
func truncate(cause string) string {
	const most = 500 // letters
	if utf8.RuneCountInString(cause) > most {
		return string([]rune(cause)[:most]) + "…"
	}
	return cause
}

// TestBot is [Service.TryBot] for who waits for the end.
func (s *Service) TestBot(ctx context.Context, c Caller, in BotRef) (*Trial, error) {
	return s.TryBot(ctx, c, in, nil)
}
