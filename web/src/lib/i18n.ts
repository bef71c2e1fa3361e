import i18n from 'i18next';
import { initReactI18next } from 'react-i18next';
import en from '@/locales/en-US.json';
import { KEYS, local } from './storage';
import type { I18nText } from './types';

/** The languages of the product. One is offered as soon as its file stands in src/locales. */
export const LANGUAGES: Record<string, string> = {
  'en-US': 'English',
  'zh-Hans': '简体中文',
  'zh-Hant': '繁體中文',
  'ja-JP': '日本語',
  'th-TH': 'ไทย',
  'vi-VN': 'Tiếng Việt',
  'es-ES': 'Español',
  'ru-RU': 'Русский',
};

const loaders = import.meta.glob<{ default: object }>(['../locales/*.json', '!../locales/en-US.json']);

function fileOf(lang: string) {
  return loaders[`../locales/${lang}.json`];
}

export function availableLanguages(): string[] {
  return Object.keys(LANGUAGES).filter((lang) => lang === 'en-US' || fileOf(lang) !== undefined);
}

export function matchLanguage(tag: string): string | null {
  const lower = tag.toLowerCase();
  if (lower.startsWith('zh')) return /tw|hk|mo|hant/.test(lower) ? 'zh-Hant' : 'zh-Hans';
  const primary = lower.split('-')[0];
  return Object.keys(LANGUAGES).find((lang) => lang.toLowerCase().split('-')[0] === primary) ?? null;
}

export function detectLanguage(): string {
  const stored = local.get(KEYS.language);
  if (stored && stored in LANGUAGES) return stored;
  for (const tag of navigator.languages ?? [navigator.language]) {
    const match = matchLanguage(tag);
    if (match) return match;
  }
  return 'en-US';
}

async function load(lang: string) {
  const loader = fileOf(lang);
  if (loader && !i18n.hasResourceBundle(lang, 'translation')) {
    i18n.addResourceBundle(lang, 'translation', (await loader()).default);
  }
}

export async function setLanguage(lang: string) {
  await load(lang);
  await i18n.changeLanguage(lang);
  local.set(KEYS.language, lang);
}

export async function initI18n() {
  const lang = detectLanguage();
  await i18n.use(initReactI18next).init({
    lng: lang,
    fallbackLng: 'en-US',
    resources: { 'en-US': { translation: en } },
    interpolation: { escapeValue: false },
    returnNull: false,
    partialBundledLanguages: true,
  });
  const apply = (next: string) => {
    document.documentElement.lang = next;
  };
  i18n.on('languageChanged', apply);
  apply(lang);
  if (fileOf(lang)) {
    try {
      await load(lang);
      await i18n.changeLanguage(lang);
    } catch {
      // English is already there; a lost language file must not keep the panel from starting.
    }
  }
}

/** Text of server metadata in the current language: its own, then en, zh_Hans, zh_Hant, ja. */
export function pick(text: I18nText, lang: string = i18n.language): string {
  if (!text) return '';
  if (typeof text === 'string') return text;
  const wanted = lang.replace('-', '_');
  for (const key of [wanted, 'en_US', 'zh_Hans', 'zh_Hant', 'ja_JP']) {
    if (text[key]) return text[key];
  }
  return Object.values(text).find(Boolean) ?? '';
}

export default i18n;
