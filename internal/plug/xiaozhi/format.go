package xiaozhi

import (
	"strings"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/xiaozhi/wire"
)

const (
	msgFormatTitle = i18n.Message("Sound format not supported")
	msgFormat      = i18n.Message("The server speaks opus, and the hello asks for %s. Set audio_params.format to opus.")
)

// rejectFormat returns the alert for a board whose hello asks for an audio format other than Opus,
// or nil if the format is supported.
func rejectFormat(h *wire.Hello, lang i18n.Lang) *wire.Message {
	format := h.Audio.Format
	if format == "" || strings.EqualFold(format, "opus") {
		return nil
	}
	return &wire.Message{
		Type: wire.TypeAlert, Status: msgFormatTitle.In(lang), Message: msgFormat.In(lang, clip(format)),
		Emotion: "sad",
	}
}
