package cli

import (
	"encoding/base64"
	"fmt"
	"strings"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/openai/openaitest"
	"patchbay/internal/talk"
)

// demoModel simulates a model behind an OpenAI-compatible API. Its answers depend on the requests,
// so that they show whether history and photos arrive.
type demoModel struct {
	server *openaitest.Server
	lang   i18n.Lang
	name   string // name it must remember

	thinking chan struct{} // closed when the long question has arrived
	decided  chan struct{} // closed when it may answer that

	booked, welcome i18n.Message
}

// startModel starts the model on a port of this machine.
func startModel(lang i18n.Lang) (*demoModel, error) {
	m := &demoModel{
		lang: lang, name: i18n.Message("Ming").In(lang),
		thinking: make(chan struct{}), decided: make(chan struct{}),
		booked:  i18n.Message("Your ticket is booked: five past eight, by the window."),
		welcome: i18n.Message("Welcome back!"),
	}
	var err error
	m.server, err = openaitest.Start()
	if err != nil {
		return nil, err
	}
	m.server.Answer = m.answer
	return m, nil
}

const (
	msgNice    = i18n.Message("Nice to meet you, %s!")
	msgYouAre  = i18n.Message("You told me: you are %s.")
	msgNoIdea  = i18n.Message("You have not told me.")
	msgPicture = i18n.Message("A sunset over a lake (I got a %s of %d bytes).")
)

// answer returns the reply to a request.
func (m *demoModel) answer(r *openaitest.Request) openaitest.Reply {
	last := r.Chat.Last()
	switch text := last.Text(); {
	case len(r.Chat.Results()) > 0:
		return m.words(msgItIs.In(m.lang, r.Chat.Results()[0].Text()))
	case strings.Contains(text, msgHowWarm.In(m.lang)) && offers(&r.Chat, toolWarmth):
		return openaitest.Reply{Steps: openaitest.CallInPieces(0, "call_1", toolWarmth,
			`{"room":"`, msgStudy.In(m.lang), `"}`)}
	case picture(last) != "":
		kind, data := decodeDataURI(picture(last))
		return m.words(msgPicture.In(m.lang, kind, len(data)))
	case strings.Contains(text, msgWhatName.In(m.lang)):
		if m.told(&r.Chat) {
			return m.words(msgYouAre.In(m.lang, m.name))
		}
		return m.words(msgNoIdea.In(m.lang))
	case strings.Contains(text, m.name):
		return m.words(msgNice.In(m.lang, m.name))
	case strings.Contains(text, msgWhatSee.In(m.lang)) && offers(&r.Chat, talk.CommandTakePhoto):
		return openaitest.Reply{Steps: openaitest.CallInPieces(0, "call_1", talk.CommandTakePhoto, "{", "}")}
	case strings.Contains(text, msgMorning.In(m.lang)):
		return m.words(msgMorningToo.In(m.lang))
	case strings.Contains(text, msgBookQuest.In(m.lang)):
		close(m.thinking)
		reply := m.words(m.booked.In(m.lang))
		reply.Steps = append([]openaitest.Step{openaitest.Wait(m.decided)}, reply.Steps...)
		return reply
	}
	return m.words(m.welcome.In(m.lang))
}

// told reports whether the name is in the conversation so far.
func (m *demoModel) told(c *openaitest.Chat) bool {
	for i := range c.Messages {
		if strings.Contains(c.Messages[i].Text(), m.name) {
			return true
		}
	}
	return false
}

// words streams a text, a few characters at a time.
func (m *demoModel) words(text string) openaitest.Reply {
	const letters = 3
	var steps []openaitest.Step
	runes := []rune(text)
	for len(runes) > 0 {
		n := min(letters, len(runes))
		steps = append(steps, openaitest.Delay(demoPiecePause), openaitest.Text(string(runes[:n])))
		runes = runes[n:]
	}
	return openaitest.Reply{Steps: steps}
}

// offers reports whether a request offers a function to the model.
func offers(c *openaitest.Chat, name string) bool {
	for _, t := range c.Tools {
		if t.Function.Name == name {
			return true
		}
	}
	return false
}

// picture returns the URL of a message's picture, or "".
func picture(m *openaitest.Message) string {
	for _, p := range m.Parts() {
		if p.Type == "image_url" {
			return p.ImageURL.URL
		}
	}
	return ""
}

// decodeDataURI decodes a data: URL.
func decodeDataURI(uri string) (kind string, data []byte) {
	head, rest, _ := strings.Cut(uri, ",")
	kind = strings.TrimSuffix(strings.TrimPrefix(head, "data:image/"), ";base64")
	data, err := base64.StdEncoding.DecodeString(rest)
	if err != nil {
		return fmt.Sprint(err), nil
	}
	return kind, data
}
