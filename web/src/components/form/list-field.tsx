import { useTranslation } from 'react-i18next';
import { Plus, Trash2 } from 'lucide-react';
import { Button, IconButton } from '@/ui/button';
import { Input, type FieldControl } from '@/ui/form';

export function ListField({ label, value, onChange, disabled, control }: {
  label: string;
  value: string[];
  onChange: (value: string[]) => void;
  disabled: boolean;
  control: FieldControl;
}) {
  const { t } = useTranslation();
  return (
    <div role="group" aria-label={label} className="flex flex-col gap-2">
      {value.map((item, index) => (
        <div key={index} className="flex gap-1.5">
          <Input
            id={index === 0 ? control.id : undefined}
            aria-label={t('form.row', { n: index + 1 })}
            aria-describedby={control['aria-describedby']}
            autoFocus={item === '' && index === value.length - 1}
            value={item}
            disabled={disabled}
            onChange={(event) => onChange(value.map((old, i) => (i === index ? event.target.value : old)))}
          />
          <IconButton label={t('form.removeRow', { n: index + 1 })} disabled={disabled} onClick={() => onChange(value.filter((_, i) => i !== index))}>
            <Trash2 className="size-4 text-muted" aria-hidden />
          </IconButton>
        </div>
      ))}
      <Button
        id={value.length === 0 ? control.id : undefined}
        size="sm"
        aria-label={`${t('form.addRow')}: ${label}`}
        className="self-start"
        disabled={disabled}
        onClick={() => onChange([...value, ''])}
      >
        <Plus className="size-4" aria-hidden />
        {t('form.addRow')}
      </Button>
    </div>
  );
}
