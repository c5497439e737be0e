package xiaozhi

import (
	"patchbay/internal/i18n"
	"patchbay/internal/settings"
)

// VoiceTexts are what people are told of the [VoiceSettings].
func VoiceTexts() map[string]settings.FieldText {
	return map[string]settings.FieldText{
		"language": {Label: i18n.Message("Language of the conversation"),
			Hint:    i18n.Message("Its code. What is heard, said and shown is in it."),
			Example: "ja"},
		"voice": {Label: i18n.Message("Voice"),
			Hint:    i18n.Message("Its name, as the speech engine knows it."),
			Example: "nova"},
		"speed": {Label: i18n.Message("Speed of the speech"), Hint: i18n.Message("1 is normal; 0.25 to 4"), Example: "0.9"},
		"engines": {Label: i18n.Message("Speech engines"),
			Hint: i18n.Message("Their names in order, with commas between: the next one is used when one fails. Empty: all of them.")},
		"silence": {Label: i18n.Message("Pause that ends a question"),
			Hint:    i18n.Message("200ms to 3s. Empty: shorter after a whole sentence, longer in the middle of one."),
			Example: "800ms"},
		"wake_words": {Label: i18n.Message("Wake words"),
			Hint:    i18n.Message("Those that the board listens for beside the usual ones, with commas between."),
			Example: i18n.Message("Hey Robin")},
		"exit_phrases": {Label: i18n.Message("Phrases that end the conversation"),
			Hint:    i18n.Message("Beside the usual ones, such as “goodbye”, with commas between."),
			Example: i18n.Message("that will do")},
		"greeting": {Label: i18n.Message("Greeting"),
			Hint:    i18n.Message("Spoken when somebody wakes the board."),
			Example: i18n.Message("Hi, what's up?")},
		"volume": {Label: i18n.Message("Volume while it speaks"),
			Hint:    i18n.Message("1 to 100, set when the board first answers in a conversation. Empty: it stays as it is."),
			Example: "60"},
		"record": {Label: i18n.Message("Record conversations for so many days"),
			Hint: i18n.Message("What is said, as text and sound, is stored for so long; the board shows that it is. " +
				"1 to 365; empty: nothing is stored. Only the owner of the board can change this."),
			Example: "30"},
		"fillers": {Label: i18n.Message("Asks for patience"),
			Hint: i18n.Message("“One moment”, when an answer takes longer than 1.2 s. Empty: yes.")},
		"follow_up": {Label: i18n.Message("Time for the next question"),
			Hint: i18n.Message("How long the board listens after an answer before the conversation ends. " +
				"Empty: 6 seconds after a short answer, 20 after a longer one, and longer after a question."),
			Example: "15s"},
	}
}
