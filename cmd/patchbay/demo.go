package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"patchbay/internal/talk"
)

type demoCmd struct {
	Lang string `help:"Language of the story: zh or en; without it, that of this terminal." enum:"zh,en," default:""`
}

// Help returns the command's detailed help with examples.
func (demoCmd) Help() string {
	return `A server starts in a folder that is gone afterwards, on a port of this machine. Simulated glasses, a simulated EyeClaw plugin, a stand-in for a model, a tool server, a simulated voice board and a simulated OpenClaw node talk to it through real connections, and at the end somebody signs in to its web pages. Each step checks what it shows: the exit code is 1 if anything is not as it should be. With --json each step is one JSON object.

Examples:

    patchbay demo
    patchbay demo --lang en --json`
}

// demoLimit is the timeout of the whole demo.
const demoLimit = 2 * time.Minute

// Run runs the demo.
func (c *demoCmd) Run(ctx context.Context, sh *shell) (err error) {
	if c.Lang != "" {
		sh.lang = talk.Lang(c.Lang)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, demoLimit,
		errors.New("the demo takes too long; is this machine very busy?"))
	defer cancel()
	folder, err := os.MkdirTemp("", "patchbay-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	st := &demoRun{demoOutput: demoOutput{sh: sh}, folder: folder}
	defer func() { err = errors.Join(err, st.close()) }()
	if !sh.json {
		sh.say(sayDemoBegins)
	}
	begin := time.Now()
	for i, a := range demoSteps {
		if err := st.play(ctx, i+1, a); err != nil {
			return err
		}
	}
	if !sh.json {
		sh.say(sayDemoEnds, time.Since(begin).Seconds())
	}
	return nil
}

var (
	sayDemoBegins = talk.Say{Zh: "Patchbay 的故事，全部在这台电脑上，经过真实的连接。",
		En: "The story of Patchbay, all on this machine, through real connections."}
	sayDemoEnds = talk.Say{
		Zh: "\n全部通过，用时 %.1f 秒。接下来：\n  patchbay serve --demo    同样的东西，留着慢慢试\n  patchbay user add 名字   从头搭建自己的",
		En: "\nEverything went as it should, in %.1f s. What next:\n  patchbay serve --demo     the same, to try at leisure\n  patchbay user add NAME    set up your own",
	}
)

// demoStep is one step of the demo.
type demoStep struct {
	name  string
	title talk.Say
	tell  talk.Say // one line of explanation
	play  func(context.Context, *demoRun) error
}

var demoSteps = []demoStep{
	{"serve", talk.Say{Zh: "启动服务", En: "The server starts"},
		talk.Say{Zh: "一个进程，一个文件夹，不需要别的服务。", En: "One process, one folder, no other service."}, playServe},
	{"ask", talk.Say{Zh: "眼镜提问", En: "Glasses ask"},
		talk.Say{Zh: "平台每句话发来一个 POST，回答逐字流回眼镜。",
			En: "The platform posts each sentence; the answer streams back piece by piece."}, playAsk},
	{"bind", talk.Say{Zh: "陌生人扫码绑定", En: "A stranger is bound by a QR code"},
		talk.Say{Zh: "没见过的用户会被请去拍机器人的二维码，在本机识别，不经过第三方。",
			En: "Somebody unknown is asked to photograph a bot's code, which is read here; no third party sees the photo."}, playBind},
	{"plugin", talk.Say{Zh: "EyeClaw 插件在回答中途断线", En: "An EyeClaw plugin loses its connection in mid-answer"},
		talk.Say{Zh: "插件从内网连出来；断线期间丢的字，重连后补上。",
			En: "The plugin dials out from behind its router; what is lost while it is away is made good when it is back."}, playPlugin},
	{"model", talk.Say{Zh: "OpenAI 兼容的模型", En: "A model with an OpenAI-compatible API"},
		talk.Say{Zh: "记得上一句，看不见的时候会请眼镜拍照。",
			En: "It remembers what was said, and has the glasses take a photo when it needs to see."}, playModel},
	{"tools", talk.Say{Zh: "模型调用工具，程序也能调用", En: "A model calls a tool, and so does a program"},
		talk.Say{Zh: "别人的 MCP 服务器接进来，机器人和程序都能用它的工具；每次调用都有记录。",
			En: "Somebody's MCP server is plugged in; bots and programs use its tools, and every call is written down."}, playTools},
	{"learn", talk.Say{Zh: "知识点，用眼镜复习", En: "Knowledge points, reviewed with the glasses on"},
		talk.Say{Zh: "程序记下要学的，眼镜来考你；答得怎样，决定下次什么时候再问。",
			En: "A program adds what is to be learned, the glasses ask; how well it is recalled says when it comes again."}, playLearn},
	{"board", talk.Say{Zh: "语音设备：出示验证码，被调用，拍照，复述",
		En: "A voice board shows its code, is called, takes a photo, and says back what it hears"},
		talk.Say{Zh: "小智设备经 MQTT 接入，没人说话时也找得到；声音走 UDP。",
			En: "A XiaoZhi board is reached over MQTT even while nobody talks with it; its sound goes over UDP."},
		playBoard},
	{"nodes", talk.Say{Zh: "OpenClaw：节点、操作员、智能体", En: "OpenClaw: a node, an operator, an agent"},
		talk.Say{Zh: "OpenClaw 的节点连到这里，它的工具人人可用；这里的一切对它的操作员都是节点；智能体也能当机器人。",
			En: "OpenClaw's nodes connect here, and everybody uses their tools; all that is here is a node to its operators; an agent can be a bot."}, playNodes},
	{"late", talk.Say{Zh: "迟到的回答", En: "A late answer"},
		talk.Say{Zh: "眼镜等不及断开了，机器人继续想，下次开口时告诉你。",
			En: "The glasses hang up, the bot goes on, and the answer is told at the next turn."}, playLate},
	{"console", talk.Say{Zh: "主人在网页上登录", En: "The owner signs in to the web pages"},
		talk.Say{Zh: "控制台在同一个地址，手机、电脑都能打开；发生过的一切都在那里。",
			En: "The console is at the same address, for a phone or a computer; all that has happened is there."},
		playConsole},
}

// stepReport is a step in the JSON output.
type stepReport struct {
	Step    int        `json:"step"`
	Name    string     `json:"name"`
	Title   string     `json:"title"`
	OK      bool       `json:"ok"`
	Error   string     `json:"error,omitempty"`
	Note    string     `json:"note,omitempty"`
	Took    float64    `json:"took_ms"`
	Answers []answered `json:"answers,omitempty"`
}

// play runs one step and prints the result.
func (st *demoRun) play(ctx context.Context, number int, a demoStep) error {
	if !st.sh.json {
		st.sh.printf("\n%d  %s\n   %s\n", number, a.title.In(st.sh.lang), a.tell.In(st.sh.lang))
	}
	st.answers, st.note = nil, ""
	begin := time.Now()
	err := a.play(ctx, st)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	passed := time.Since(begin)
	if st.sh.json {
		r := stepReport{Step: number, Name: a.name, Title: a.title.In(st.sh.lang), OK: err == nil, Note: st.note,
			Took: millis(passed), Answers: st.answers}
		if err != nil {
			r.Error = err.Error()
		}
		if jerr := st.sh.writeJSON(r, ""); jerr != nil {
			return jerr
		}
	}
	if err != nil {
		return fmt.Errorf("step %d (%s) went wrong: %w", number, a.name, err)
	}
	if !st.sh.json {
		st.sh.say(sayStepDone, st.summary(passed))
	}
	return nil
}

var sayStepDone = talk.Say{Zh: "   ✓ %s", En: "   ✓ %s"}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
