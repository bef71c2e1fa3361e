import { useTranslation } from 'react-i18next';
import { Languages, Monitor, Moon, Sun } from 'lucide-react';
import { toast } from 'sonner';
import { LANGUAGES, availableLanguages, setLanguage } from '@/lib/i18n';
import { setTheme, useTheme, type Theme } from '@/lib/theme';
import { IconButton } from '@/ui/button';
import { Menu, MenuRadioGroup, MenuRadioItem } from '@/ui/overlay';

const NEXT: Record<Theme, Theme> = { light: 'dark', dark: 'system', system: 'light' };
const ICONS = { light: Sun, dark: Moon, system: Monitor };

export function ThemeToggle() {
  const { t } = useTranslation();
  const theme = useTheme();
  const Icon = ICONS[theme];
  return (
    <IconButton label={t('shell.themeNow', { theme: t(`shell.theme.${theme}`) })} onClick={() => setTheme(NEXT[theme])}>
      <Icon className="size-4.5" aria-hidden />
    </IconButton>
  );
}

export function LanguageItems() {
  const { i18n, t } = useTranslation();
  const change = async (lang: string) => {
    try {
      await setLanguage(lang);
    } catch {
      toast.error(t('error.network'));
    }
  };
  return (
    <MenuRadioGroup value={i18n.language} onValueChange={change}>
      {availableLanguages().map((lang) => (
        <MenuRadioItem key={lang} value={lang} lang={lang}>
          {LANGUAGES[lang]}
        </MenuRadioItem>
      ))}
    </MenuRadioGroup>
  );
}

export function LanguageMenu() {
  const { t } = useTranslation();
  return (
    <Menu
      trigger={
        <IconButton label={t('shell.language')}>
          <Languages className="size-4.5" aria-hidden />
        </IconButton>
      }
    >
      <LanguageItems />
    </Menu>
  );
}
