package xiaozhi

import (
	"strings"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/xiaozhi/wire"
)

const (
	msgFormatTitle = i18n.Message("Sound format not supported")
	msgFormat      = i18n.Message("The server speaks opus, and the hello asks for %s. Set audio_params.format to opus.")
	msgFormatPCM   = i18n.Message("The server speaks pcm with one channel at 8000, 12000, 16000, 24000 or 48000 samples per second. Set audio_params to that, or its format to opus.")
	msgFormatBusy  = i18n.Message("Too many programs speak pcm with the server at the moment. Set audio_params.format to opus, or try again later.")
)

// rejectFormat returns the alert for a board whose hello asks for an audio format other than Opus,
// or nil if the format is supported.
func rejectFormat(h *wire.Hello, lang i18n.Lang) *wire.Message {
	format := h.Audio.Format
	if format == "" || strings.EqualFold(format, "opus") {
		return nil
	}
	return formatAlert(msgFormat.In(lang, clip(format)), lang)
}

// formatAlert is what a board shows that speaks another format.
func formatAlert(told string, lang i18n.Lang) *wire.Message {
	return &wire.Message{Type: wire.TypeAlert, Status: msgFormatTitle.In(lang), Message: told, Emotion: "sad"}
}

// isPCM reports whether a hello asks for samples of 16 bits instead of Opus packets. No firmware
// does; web pages and programs without Opus do, by different names.
func isPCM(h *wire.Hello) bool {
	switch strings.ToLower(h.Audio.Format) {
	case "pcm", "pcm16", "pcm_s16le", "s16le":
		return true
	}
	return false
}
