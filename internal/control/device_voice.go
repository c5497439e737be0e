package control

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/problem"
	"patchbay/internal/settings"
	"patchbay/internal/store"
)

// VoiceOptions describe how devices hear and speak.
type VoiceOptions struct {
	// Settings returns a pointer to the zero value of the settings of a device, as in [hub.Kind],
	// and Texts are what people are told of them.
	Settings func() any
	Texts    map[string]settings.FieldText
	// Effective returns the settings of a device with what its bot and the device itself add.
	Effective func(context.Context, store.Device) any
	// Engines are the names of the speech engines, in their order; nil if they are not known.
	Engines func(context.Context) ([]string, error)
}

// voiceEngines is the setting with names of speech engines.
const voiceEngines = "engines"

// DeviceVoice is how a device hears and speaks.
type DeviceVoice struct {
	Device int64  `json:"device"`
	Name   string `json:"name"`
	// Settings are those of the device, and Effective those that hold: what the device lacks is set
	// by its bot or by the device itself.
	Settings  settings.Values `json:"settings"`
	Effective settings.Values `json:"effective"`
	// Kinds are all settings that there are.
	Kinds []hub.Setting `json:"kinds"`
	// Engines are the names of the speech engines that can be chosen.
	Engines []string `json:"engines,omitempty"`
}

// DeviceVoiceChange changes settings; an empty text removes one.
type DeviceVoiceChange struct {
	Device   string       `path:"device" json:"-"` // number, name or hardware address
	Settings SettingTexts `json:"settings"`
}

const (
	msgNoVoice       = i18n.Message("this server has no voice boards")
	msgNoVoiceChange = i18n.Message("nothing to change is given")
	msgNoVoiceEngine = i18n.Message("engines: there is no speech engine %q; there are %s")
	msgNoEngines     = i18n.Message("engines: there is no speech engine %q; none is set up")
)

// DeviceVoice returns how a device hears and speaks.
func (s *Service) DeviceVoice(ctx context.Context, c Caller, in DeviceRef) (DeviceVoice, error) {
	if s.BoardVoice.Settings == nil {
		return DeviceVoice{}, problem.New(problem.NotFound, msgNoVoice)
	}
	d, err := s.FindDevice(ctx, c, in.Device)
	if err != nil {
		return DeviceVoice{}, err
	}
	return s.deviceVoice(ctx, d)
}

func (s *Service) deviceVoice(ctx context.Context, d store.Device) (v DeviceVoice, err error) {
	v = DeviceVoice{Device: d.Number, Name: d.Name,
		Kinds: hub.DescribeSettings(s.BoardVoice.Settings, s.BoardVoice.Texts)}
	if err := json.Unmarshal(d.Voice, &v.Settings); err != nil {
		return v, err
	}
	text, err := json.Marshal(s.BoardVoice.Effective(ctx, d))
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(text, &v.Effective); err != nil {
		return v, err
	}
	if s.BoardVoice.Engines != nil {
		v.Engines, err = s.BoardVoice.Engines(ctx)
	}
	return v, err
}

// ChangeDeviceVoice changes how a device hears and speaks, from the next question on.
func (s *Service) ChangeDeviceVoice(ctx context.Context, c Caller, in DeviceVoiceChange) (DeviceVoice, error) {
	if err := requireUnrestrictedKey(c); err != nil {
		return DeviceVoice{}, err
	}
	before, err := s.DeviceVoice(ctx, c, DeviceRef{in.Device})
	if err != nil {
		return DeviceVoice{}, err
	}
	if len(in.Settings) == 0 {
		return DeviceVoice{}, problem.New(problem.Invalid, msgNoVoiceChange)
	}
	days := 0 // before
	d, err := s.Hub.Store.Devices.ChangeVoice(ctx, before.Device,
		func(d store.Device) (json.RawMessage, error) {
			voice, err := s.changedVoice(d, in.Settings, before.Engines)
			if days = recordDays(d.Voice); err == nil && recordDays(voice) != days && !c.mayHear(d.Owner) {
				return nil, problem.New(problem.Denied, msgNotYourRecord)
			}
			return voice, err
		})
	if err != nil {
		return DeviceVoice{}, describeDeviceError(err)
	}
	if now := recordDays(d.Voice); now != days {
		s.RecordAdminEvent(ctx, c, EventDeviceRecording, fmt.Sprintf("%s: %d", aboutDevice(d), now))
	}
	s.RecordAdminEvent(ctx, c, EventDeviceVoice, aboutDevice(d))
	return s.deviceVoice(ctx, d)
}

// changedVoice returns the stored form of changed settings.
func (s *Service) changedVoice(d store.Device, set SettingTexts, engines []string) (json.RawMessage, error) {
	into := s.BoardVoice.Settings()
	if err := json.Unmarshal(d.Voice, into); err != nil {
		return nil, err
	}
	_, err := settings.ChangeStruct(into, set)
	if checked, ok := into.(interface{ Validate() error }); err == nil && ok {
		err = checked.Validate()
	}
	if err != nil {
		return nil, InputProblem(problem.Invalid, err)
	}
	if set[voiceEngines] != "" && s.BoardVoice.Engines != nil {
		if err := knownEngines(settings.SplitList(set[voiceEngines]), engines); err != nil {
			return nil, err
		}
	}
	return json.Marshal(into)
}

func knownEngines(names, engines []string) error {
	for _, name := range names {
		switch {
		case slices.Contains(engines, name):
		case len(engines) == 0:
			return problem.New(problem.Invalid, msgNoEngines, name)
		default:
			return problem.New(problem.Invalid, msgNoVoiceEngine, name, strings.Join(engines, ", "))
		}
	}
	return nil
}
