package control

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"patchbay/internal/i18n"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

// VoiceSetup says with what people talk to their bots: a service and its key, the address of
// another service with OpenAI's interface, or Wyoming servers. If it names none of them, Wyoming
// servers are looked for on the server's machine.
type VoiceSetup struct {
	Service string `json:"service,omitempty"` // a name of [Service.VoiceServices]
	// URL is the address of another service or, with Service, its address in place of the usual
	// one: that of a workspace or a proxy.
	URL string `json:"url,omitempty"`
	// Wyoming are addresses such as localhost:10300.
	Wyoming []string `json:"wyoming,omitempty"`
	// Key is that of the service. What is there already keeps its key if it is empty.
	Key string `json:"key,omitempty"`
	// Use is "listen", "speak", or empty for both.
	Use string `json:"use,omitempty"`
	// What follows replaces the models and the voice that a service has otherwise. Another service
	// is a bot only if Model names one of its models.
	ListenModel string `json:"listen_model,omitempty"`
	SpeakModel  string `json:"speak_model,omitempty"`
	Voice       string `json:"voice,omitempty"`
	Model       string `json:"model,omitempty"`
	// NoBot makes no bot.
	NoBot bool `json:"no_bot,omitempty"`
	// User is the owner of the bot, if an admin names one.
	User string `json:"user,omitempty"`
}

// VoiceSet is what a set-up has made and tested.
type VoiceSet struct {
	Engines []SetEngine `json:"engines"`
	Bot     *SetBot     `json:"bot,omitempty"`
}

// SetEngine is a speech engine that was set up.
type SetEngine struct {
	EngineDetail
	Added bool `json:"added"` // it was not there before
}

// SetBot is a bot that was set up.
type SetBot struct {
	BotStatus
	Added bool `json:"added"` // it was not there before
	// Test is its answer to a test question.
	Test *Trial `json:"test"`
}

const (
	msgSetupOne = i18n.Message("Give a service or an address, or Wyoming servers, but not both.")
	msgSetupKey = i18n.Message("The key is missing. One can be made at %s")
	msgSetupURL = i18n.Message("The address of a service looks like %s")
)

// voiceRole is the role that bots start from which are made to talk.
const voiceRole = "companion"

// SetUpVoice makes speech engines, and a bot where the service has models, and tests them. Those
// that have the same address already get what is given instead. An engine that fails its test is
// not saved; a bot is, because a model may fail for a while.
func (s *Service) SetUpVoice(ctx context.Context, c Caller, in VoiceSetup) (out VoiceSet, err error) {
	if err := admin(c); err != nil {
		return out, err
	}
	engines, bot, err := s.planVoice(ctx, in)
	if err != nil {
		return out, err
	}
	var owner store.Person
	if bot != nil { // before anything is made
		if owner, err = s.singlePerson(ctx, c, in.User); err != nil {
			return out, err
		}
	}
	for _, e := range engines {
		set, err := s.setUpEngine(ctx, c, e)
		if err != nil {
			return out, err
		}
		out.Engines = append(out.Engines, set)
	}
	if bot != nil {
		out.Bot, err = s.setUpBot(ctx, c, owner, bot)
	}
	return out, err
}

// part is an engine or a bot to set up.
type part struct {
	name, kind, use string
	spare           string       // name of an engine if name is taken; may be empty
	usual           SettingTexts // with the address
	given           SettingTexts // replace the usual ones, and those of what is there
	keys            string       // where a key is made, if something new needs one
}

// settings returns those of something new.
func (p *part) settings() SettingTexts {
	set := maps.Clone(p.usual)
	maps.Copy(set, p.given)
	return set
}

// given returns the settings that are not empty.
func given(set SettingTexts) SettingTexts {
	maps.DeleteFunc(set, func(_, text string) bool { return text == "" })
	return set
}

// planVoice returns the engines and the bot that a set-up asks for; without a bot, it is nil.
func (s *Service) planVoice(ctx context.Context, in VoiceSetup) (engines []part, bot *part, err error) {
	v, host := VoiceService{Kind: "openai"}, ""
	switch {
	case in.Service+in.URL != "" && len(in.Wyoming) > 0:
		return nil, nil, problem.New(problem.Invalid, msgSetupOne)
	case in.Service != "":
		if v, err = voiceServiceNamed(in.Service); err == nil && in.URL != "" {
			v, host, err = v.moved(in.URL)
		}
		if err != nil {
			return nil, nil, err
		}
	case in.URL != "":
		address := strings.TrimRight(strings.TrimSpace(in.URL), "/")
		u, err := url.Parse(address)
		if err != nil || u.Host == "" {
			return nil, nil, problem.New(problem.Invalid, msgSetupURL, "http://localhost:8000/v1")
		}
		v.Name, v.Engine, v.Bot = shortName(u.Host), SettingTexts{"base_url": address}, SettingTexts{"base_url": address}
		in.NoBot = in.NoBot || in.Model == ""
	default:
		engines, err = s.planWyoming(ctx, in)
		return engines, nil, err
	}
	engines = []part{{name: v.Name, spare: host, kind: v.Kind, use: in.Use, usual: v.Engine, keys: v.Keys,
		given: given(SettingTexts{"api_key": in.Key, "listen_model": in.ListenModel, "speak_model": in.SpeakModel,
			"voice": in.Voice})}}
	if !in.NoBot {
		bot = &part{name: v.Name, kind: "openai", usual: v.Bot,
			given: given(SettingTexts{"api_key": in.Key, "model": in.Model})}
	}
	return engines, bot, nil
}

// shortName returns a host as the name of an engine.
func shortName(host string) string {
	if name := []rune(host); len(name) > maxEngineName {
		return string(name[:maxEngineName])
	}
	return host
}

// planWyoming returns the engines of Wyoming servers.
func (s *Service) planWyoming(ctx context.Context, in VoiceSetup) (engines []part, err error) {
	found, err := s.Voice.Wyoming(ctx, in.Wyoming)
	for _, w := range found {
		e := part{name: w.Address, kind: "wyoming", use: in.Use, usual: SettingTexts{"address": w.Address},
			given: SettingTexts{}}
		if w.Listens {
			e.given["listen_model"] = in.ListenModel
		} else {
			e.use = store.UseSpeak
		}
		if w.Speaks {
			e.given["voice"] = in.Voice
		} else {
			e.use = store.UseListen
		}
		given(e.given)
		engines = append(engines, e)
	}
	return engines, err
}

// addressSettings are the settings that hold the address of an engine or a bot.
var addressSettings = []string{"base_url", "url", "address"}

// sameAddress reports whether settings have an address of others.
func sameAddress(set, as SettingTexts) bool {
	for _, name := range addressSettings {
		if as[name] != "" {
			return strings.TrimRight(set[name], "/") == as[name]
		}
	}
	return false
}

// setUpEngine adds an engine, or changes the one with its address, which is on then.
func (s *Service) setUpEngine(ctx context.Context, c Caller, p part) (set SetEngine, err error) {
	rows, err := s.Hub.Store.SpeechEngines.All(ctx)
	if err != nil {
		return set, err
	}
	for _, e := range rows {
		has, err := s.Voice.Texts(e)
		if err != nil || e.Kind != p.kind || !sameAddress(has, p.usual) {
			continue // one that cannot be read is another
		}
		for _, name := range addressSettings { // settings that are given are tested
			if has[name] != "" {
				p.given[name] = has[name]
			}
		}
		on, in := true, EngineChange{Engine: fmt.Sprint(e.Number), Settings: p.given}
		in.Enabled = &on
		if p.use != "" {
			in.Use = &p.use
		}
		set.EngineDetail, err = s.ChangeEngine(ctx, c, in)
		return set, err
	}
	if p.keys != "" && p.given["api_key"] == "" {
		return set, problem.New(problem.Invalid, msgSetupKey, p.keys)
	}
	taken := func(name string) bool {
		return slices.ContainsFunc(s.Voice.All(rows), func(e store.SpeechEngine) bool {
			return strings.EqualFold(e.Name, name)
		})
	}
	name := p.name
	if taken(name) {
		name = cmp.Or(p.spare, name)
	}
	for n, base := 2, name; taken(name); n++ { // a host may have several services
		name = fmt.Sprintf("%s-%d", base, n)
	}
	set.Added = true
	set.EngineDetail, err = s.AddEngine(ctx, c, NewEngine{Name: name, Kind: p.kind, Use: p.use,
		Settings: p.settings()})
	return set, err
}

// setUpBot adds a bot, or changes the owner's that has its address, and tests it.
func (s *Service) setUpBot(ctx context.Context, c Caller, owner store.Person, p *part) (*SetBot, error) {
	bots, err := s.Hub.Store.Bots.ByOwner(ctx, owner.ID)
	if err != nil {
		return nil, err
	}
	set := new(SetBot)
	for _, b := range bots {
		has, err := s.Hub.Registry.SettingsText(b)
		if err != nil || b.Kind != p.kind || !sameAddress(has, p.usual) {
			continue
		}
		set.BotStatus = s.status(b, c.Lang)
		if len(p.given) > 0 {
			if _, err := s.ChangeBot(ctx, c, BotChange{Bot: fmt.Sprint(b.Number), Settings: p.given}); err != nil {
				return nil, err
			}
		}
		break
	}
	if set.Number == 0 {
		in := NewBot{User: owner.Name, Kind: p.kind, Role: voiceRole, Settings: p.settings()}
		added, err := s.AddBot(ctx, c, in)
		if problem.Is(err, problem.Conflict) { // the role's name is taken
			in.Name = p.name
			added, err = s.AddBot(ctx, c, in)
		}
		if err != nil {
			return nil, err
		}
		set.BotStatus, set.Added = added.BotStatus, true
	}
	set.Test, err = s.TestBot(ctx, c, BotRef{fmt.Sprint(set.Number)})
	return set, err
}
