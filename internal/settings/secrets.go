package settings

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"patchbay/internal/i18n"
	"patchbay/internal/seal"
)

const msgNoText = i18n.Message("%s is not a text")

// Masked is what people are shown in place of a secret.
const Masked = "••••••"

// Origin returns the origin that the value of a field is sent to; empty if it is sent to none.
func (v Values) Origin(f Field) string {
	for name := range strings.SplitSeq(f.AddressField, ",") {
		var address string
		if json.Unmarshal(v[name], &address) == nil && address != "" {
			return seal.Origin(address)
		}
	}
	return ""
}

// Seal returns the settings in their stored form, with sealed secrets.
func (s Schema) Seal(box *seal.Box, v Values) (json.RawMessage, error) {
	err := s.mapSecrets(v, func(f Field, text string) (string, error) {
		if f.AddressField != "" {
			return box.SealFor(v.Origin(f), text), nil
		}
		return box.Seal(text), nil
	})
	if err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

// Unseal returns stored settings with decrypted secrets.
func (s Schema) Unseal(box *seal.Box, stored json.RawMessage) (Values, error) {
	v := Values{}
	if len(stored) > 0 {
		if err := json.Unmarshal(stored, &v); err != nil {
			return nil, fmt.Errorf("settings: %w", err)
		}
	}
	return v, s.mapSecrets(v, func(f Field, text string) (string, error) {
		if f.AddressField != "" {
			return box.OpenFor(v.Origin(f), text)
		}
		return box.Open(text)
	})
}

// Mask replaces every secret text by another text.
func (s Schema) Mask(v Values, by string) error {
	return s.mapSecrets(v, func(Field, string) (string, error) { return by, nil })
}

// mapSecrets calls change for every secret text among the settings. A secret that was sealed for
// another address than the current one is removed: it must not be sent there.
func (s Schema) mapSecrets(v Values, change func(f Field, text string) (string, error)) error {
	for _, f := range s.Fields() {
		if !f.Secret || v[f.Name] == nil {
			continue
		}
		changed, err := f.mapTexts(v[f.Name], change)
		if errors.Is(err, seal.ErrOrigin) {
			delete(v, f.Name)
			continue
		}
		if err != nil {
			return err
		}
		v[f.Name] = changed
	}
	return nil
}

// mapTexts calls change for a secret text, or for each of a secret map.
func (f Field) mapTexts(raw json.RawMessage, change func(Field, string) (string, error)) (json.RawMessage, error) {
	texts, isMap := map[string]string{}, f.Type.Kind() == reflect.Map
	var err error
	if isMap {
		err = json.Unmarshal(raw, &texts)
	} else {
		var text string
		err = json.Unmarshal(raw, &text)
		texts[""] = text
	}
	if err != nil {
		return nil, msgNoText.Errorf(f.Name)
	}
	for name, text := range texts {
		if texts[name], err = change(f, text); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	if isMap {
		return json.Marshal(texts)
	}
	return json.Marshal(texts[""])
}
