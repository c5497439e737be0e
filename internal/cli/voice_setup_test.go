package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/internal/control"
	chat "patchbay/internal/plug/openai/openaitest"
	"patchbay/internal/voice/engines/dashscope/dashscopetest"
	"patchbay/internal/voice/engines/openai/openaitest"
	"patchbay/internal/voice/engines/wyoming/wyomingtest"
	"patchbay/internal/voice/pcm"
)

// newService returns a service that listens, speaks and answers.
func newService(t *testing.T) *openaitest.Server {
	t.Helper()
	model, err := chat.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(model.Close)
	model.Key, model.Models = openaitest.Key, []string{"small", "large"}
	service := openaitest.New(t)
	service.Other = model
	return service
}

// TestVoiceSetup sets up a service, without a server and with one, and again with other values.
func TestVoiceSetup(t *testing.T) {
	d := newDesk(t)
	service := newService(t)
	at := []string{"voice", "setup", "--url", service.URL, "--model", "small", "--key-stdin"}
	d.failing(exitFailed, openaitest.Key, at, "nobody yet")
	d.ok("user", "add", "ada")
	d.failing(exitFailed, "sk-wrong", at, "refused its key", "Nothing was saved")
	d.failing(exitFailed, "", at, "no key came")
	d.failing(exitFailed, "", []string{"voice", "setup", "--service", "openai"}, "key is missing", "platform.openai.com")
	d.failing(exitFailed, "", []string{"voice", "setup", "--service", "morse"}, `no service is called "morse"`, "openai, groq")
	d.failing(exitUsage, "k", []string{"voice", "setup", "--key-stdin"}, "requires --service or --url")
	d.failing(exitUsage, "", []string{"voice", "setup", "--write"}, "requires --offline")
	d.failing(exitFailed, "", []string{"voice", "setup", "--url", "http://127.0.0.1:1/v1"}, "cannot be reached")
	if got := d.ok("voice", "engine", "list"); !strings.Contains(got, "no speech engines") {
		t.Errorf("engines that failed their test are there:\n%s", got)
	}
	o := d.do(openaitest.Key+"\n", at...)
	for _, want := range []string{"is added", "It speaks", "It listens", "Bot 1 (Robin)", "Hello there.",
		"patchbay serve"} {
		if !strings.Contains(o.stdout, want) || o.code != exitOK {
			t.Errorf("the output has no %q: %+v", want, o)
		}
	}

	d.serve()
	var set control.VoiceSet
	d.json(&set, "voice", "setup", "--url", service.URL+"/", "--model", "large", "--voice", "nova")
	if len(set.Engines) != 1 || set.Engines[0].Added || set.Engines[0].Found == nil || set.Bot == nil ||
		set.Bot.Added || !set.Bot.Test.OK() {
		t.Errorf("the second time: %+v", set)
	}
	if got := d.ok("voice", "engine", "show", "1"); !strings.Contains(got, "voice = nova") ||
		!strings.Contains(got, "api_key = ••••••") {
		t.Errorf("the engine has\n%s", got)
	}
	if got := d.ok("bot", "show", "1"); !strings.Contains(got, "large") {
		t.Errorf("the bot has\n%s", got)
	}
	o = d.do("", "voice", "setup", "--url", service.URL, "--model", "huge")
	if o.code != exitFailed || !strings.Contains(o.stderr, "the speech engine works, but bot 1") {
		t.Errorf("a missing model: %+v", o)
	}
	if got := d.ok("voice", "engine", "list"); strings.Contains(got, "\n2 ") {
		t.Errorf("there are more engines:\n%s", got)
	}
}

// TestVoiceSetupElsewhere sets up services at other addresses than their usual ones.
func TestVoiceSetupElsewhere(t *testing.T) {
	d := newDesk(t)
	service := newService(t)
	d.ok("user", "add", "ada")
	host := strings.TrimSuffix(service.URL, "/v1")
	d.failing(exitFailed, openaitest.Key, []string{"voice", "setup", "--service", "openai", "--key-stdin", "--url",
		"ftp://a.example"}, "address of a service looks like https://api.openai.com/v1")
	d.failing(exitUsage, "", []string{"voice", "setup", "--service", "openai", "--url", host, "--wyoming", "a:1"},
		"--service and --wyoming")
	o := d.do(openaitest.Key, "voice", "setup", "--service", "openai", "--url", host, "--model", "small", "--key-stdin")
	if o.code != exitOK || !strings.Contains(o.stdout, "The speech engine openai is added.") {
		t.Errorf("without a path: %+v", o)
	}
	o = d.do(openaitest.Key, "voice", "setup", "--service", "groq", "--url", service.URL+"/", "--model", "large",
		"--key-stdin")
	if o.code != exitOK || !strings.Contains(o.stdout, "The speech engine openai is changed.") {
		t.Errorf("another service at the same address: %+v", o)
	}
	studio := dashscopetest.New(t, dashscopetest.Options{})
	web := "http" + strings.TrimPrefix(strings.TrimSuffix(studio.URL, dashscopetest.Path), "ws")
	for _, want := range []string{"dashscope is added", "dashscope is changed"} {
		o = d.do(dashscopetest.Key, "voice", "setup", "--service", "dashscope", "--url", web, "--no-bot", "--key-stdin")
		if o.code != exitOK || !strings.Contains(o.stdout, want) {
			t.Errorf("a workspace: %+v, want %s", o, want)
		}
	}
	studio = dashscopetest.New(t, dashscopetest.Options{}) // a second one, whose name is taken
	host = strings.TrimPrefix(strings.TrimSuffix(studio.URL, dashscopetest.Path), "ws://")
	o = d.do(dashscopetest.Key, "voice", "setup", "--service", "dashscope", "--url", "ws://"+host, "--no-bot",
		"--key-stdin")
	if o.code != exitOK || !strings.Contains(o.stdout, "The speech engine "+host+" is added.") {
		t.Errorf("another workspace: %+v", o)
	}
}

// TestVoiceSetupWyoming sets up servers that only listen or only speak.
func TestVoiceSetupWyoming(t *testing.T) {
	d := newDesk(t)
	ear := wyomingtest.New(t, wyomingtest.Options{Mute: true})
	mouth := wyomingtest.New(t, wyomingtest.Options{Deaf: true})
	d.ok("user", "add", "ada")
	args := []string{"voice", "setup", "--wyoming", ear.Address, "--wyoming", mouth.Address}
	if got := d.ok(args...); !strings.Contains(got, "Nobody answers yet") {
		t.Errorf("without a bot: %s", got)
	}
	var set control.VoiceSet
	d.json(&set, args...)
	if len(set.Engines) != 2 || set.Engines[0].Use != "listen" || set.Engines[1].Use != "speak" ||
		set.Engines[0].Added || set.Engines[1].Found == nil ||
		set.Engines[0].Where != strings.TrimPrefix(ear.Address, "wyoming://") {
		t.Errorf("set up is %+v", set)
	}
	d.failing(exitFailed, "", []string{"voice", "setup", "--wyoming", "127.0.0.1:1"}, "127.0.0.1:1: ", "cannot be reached")
	d.failing(exitFailed, "", []string{"voice", "setup", "--wyoming", "no port:x"}, "address is not that of a Wyoming server")
}

// TestVoiceSetupOffline finds programs, and writes the configuration for them.
func TestVoiceSetupOffline(t *testing.T) {
	d := newDesk(t)
	bin := t.TempDir()
	t.Setenv("PATH", bin)
	if got := d.ok("voice", "setup", "--offline"); !strings.Contains(got, "apt install pocketsphinx") ||
		!strings.Contains(got, "apt install espeak-ng") {
		t.Errorf("without programs: %s", got)
	}
	var sound bytes.Buffer
	if err := pcm.WriteWAV(&sound, 16000, make([]int16, 32000)); err != nil {
		t.Fatal(err)
	}
	wav := filepath.Join(bin, "said.wav")
	for name, text := range map[string]string{wav: sound.String(),
		filepath.Join(bin, "espeak-ng"):               "#!/bin/sh\nexec /bin/cat " + wav + "\n",
		filepath.Join(bin, "pocketsphinx_continuous"): "#!/bin/sh\necho one two\n"} {
		if err := os.WriteFile(name, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	want := `  speak_command: ["espeak-ng", "-v", "{lang}", "--stdout"]`
	if got := d.ok("voice", "setup", "--offline"); !strings.Contains(got, want) || !strings.Contains(got, "--write") {
		t.Errorf("the lines are not printed: %s", got)
	}
	for range 2 { // again changes nothing
		if got := d.ok("voice", "setup", "--offline", "--write"); !strings.Contains(got, "has the lines now") {
			t.Errorf("the lines are not written: %s", got)
		}
	}
	file := filepath.Join(d.data, "patchbay.yaml")
	if text, err := os.ReadFile(file); err != nil || strings.Count(string(text), want) != 1 {
		t.Errorf("the file has %s, %v", text, err)
	}
	if got := d.ok("voice", "engine", "list"); !strings.Contains(got, "speech.speak_command") {
		t.Errorf("the engines are\n%s", got)
	}
	if err := os.WriteFile(file, []byte("speech:\n  voice: nova\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.failing(exitFailed, "", []string{"voice", "setup", "--offline", "--write"}, "has a section speech already")
	d.failing(exitFailed, "", []string{"voice", "setup", "--offline", "--listen-model", wav},
		"whisper-cli is not installed, which the model "+wav)
}

// TestSimulateSpeech sets up the service that the manual uses.
func TestSimulateSpeech(t *testing.T) {
	d := withParrot(t)
	var s struct{ URL, Key string }
	d.background(&s, &safeBuffer{}, "simulate", "speech", "--json", "--listen", "127.0.0.1:0")
	host := strings.TrimSuffix(strings.TrimPrefix(s.URL, "http://"), "/v1")
	d.ok("voice", "engine", "add", host, "--set", "base_url=http://"+host+"/other", "--no-check") // its name is taken
	if o := d.do(s.Key+"\n", "voice", "setup", "--url", s.URL, "--model", "weather", "--key-stdin"); o.code != exitOK ||
		!strings.Contains(o.stdout, "It is sunny") || !strings.Contains(o.stdout, host+"-2 is added") {
		t.Errorf("set up: %+v", o)
	}
}
