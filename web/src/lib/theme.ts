import { useSyncExternalStore } from 'react';
import { KEYS, local } from './storage';

export type Theme = 'light' | 'dark' | 'system';

const listeners = new Set<() => void>();
const media = window.matchMedia?.('(prefers-color-scheme: dark)');

function read(): Theme {
  const stored = local.get(KEYS.theme);
  return stored === 'light' || stored === 'dark' ? stored : 'system';
}

function apply() {
  const theme = read();
  const dark = theme === 'dark' || (theme === 'system' && media?.matches === true);
  document.documentElement.classList.toggle('dark', dark);
  document.documentElement.classList.toggle('light', !dark);
  listeners.forEach((listener) => listener());
}

export function setTheme(theme: Theme) {
  local.set(KEYS.theme, theme);
  apply();
}

export function initTheme() {
  apply();
  media?.addEventListener('change', apply);
}

function subscribe(listener: () => void) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function useTheme(): Theme {
  return useSyncExternalStore(subscribe, read);
}

export function isDark(): boolean {
  return document.documentElement.classList.contains('dark');
}
